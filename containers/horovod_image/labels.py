"""Print what is in the image as lines 'key value', computed inside it: the image's labels.

Usage: python -m horovod_image.labels
"""

from __future__ import annotations

import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

TRAINERS = Path("/trainers")
CONTROLLERS = ("mpi", "gloo")
OPERATIONS = ("nccl", "ddl", "ccl", "mpi", "gloo")  # in the order of `horovodrun --check-build`


def package_version(name: str) -> str:
    """Upstream version of an installed Debian package, e.g. 4.2.2 of 4.2.2-1."""
    query = ["dpkg-query", "--show", "--showformat=${Version}", name]
    text = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\d+:|-[^-]*$", "", text)


def recipes() -> list[str]:
    """The trainers: modules with a preset beside them."""
    return sorted(preset.stem for preset in TRAINERS.glob("recipes/*.toml"))


def built(horovod: ModuleType, names: tuple[str, ...]) -> str:
    """Those of `names` that Horovod was compiled with. Cheaper than check-build by 15 s."""
    return ",".join(name for name in names if getattr(horovod, f"{name}_built")())


def labels() -> dict[str, str]:
    """All labels but the project's own, which `runner build` adds with the trainers.

    Raises ImportError when Horovod lacks one of the frameworks.
    """
    import horovod.tensorflow
    import horovod.torch
    import torch

    return {
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
        **({"recipes": ",".join(recipes())} if recipes() else {}),
    }


if __name__ == "__main__":
    for key, value in labels().items():
        print(key, value)
