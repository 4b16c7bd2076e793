"""Print what is in the image as lines 'key value', computed inside it: the image's labels.

Usage: python -m horovod_image.labels PROJECT_VERSION PROJECT_REVISION
"""

from __future__ import annotations

import datetime
import platform
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

CONTROLLERS = ("mpi", "gloo")
OPERATIONS = ("nccl", "ddl", "ccl", "mpi", "gloo")  # in the order of `horovodrun --check-build`


def package_version(name: str) -> str:
    """Upstream version of an installed Debian package, e.g. 4.2.2 of 4.2.2-1."""
    query = ["dpkg-query", "--show", "--showformat=${Version}", name]
    text = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\d+:|-[^-]*$", "", text)


def recipes() -> list[str]:
    """The trainers: modules with a preset beside them."""
    folder = Path(sysconfig.get_path("purelib"), "recipes")
    return sorted(preset.stem for preset in folder.glob("*.toml"))


def built(horovod: ModuleType, names: tuple[str, ...]) -> str:
    """Those of `names` that Horovod was compiled with. Cheaper than check-build by 15 s."""
    return ",".join(name for name in names if getattr(horovod, f"{name}_built")())


def labels(project: str, revision: str) -> dict[str, str]:
    """All labels. `project` and `revision` belong to this project's sources.

    Raises ImportError when Horovod lacks one of the frameworks.
    """
    import horovod.tensorflow
    import horovod.torch
    import torch

    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "org.opencontainers.image.version": project,
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.created": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "horovod.version": version("horovod"),
        "horovod.frameworks": "pytorch,tensorflow",
        "horovod.controllers": built(horovod.torch, CONTROLLERS),
        "horovod.operations": built(horovod.torch, OPERATIONS),
        "python.version": platform.python_version(),
        "torch.version": version("torch"),
        "tensorflow.version": version("tensorflow-cpu"),
        "mpi.flavour": "openmpi",
        "mpi.version": package_version("libopenmpi3"),
        "pmix.version": package_version("libpmix2"),
        "glibc.version": platform.libc_ver()[1],
        "cuda.version": torch.version.cuda or "none",
        "architecture": platform.machine(),
        "recipes": ",".join(recipes()),
    }


if __name__ == "__main__":
    for key, value in labels(*sys.argv[1:]).items():
        print(key, value)
