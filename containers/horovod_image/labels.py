"""Print what is in the image as lines 'key value', computed inside it: the image's labels.

Usage: python -m horovod_image.labels
"""

from __future__ import annotations

import contextlib
import importlib
import platform
import re
import subprocess
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

TRAINERS = Path("/trainers")
FRAMEWORKS = {"torch": "pytorch", "tensorflow": "tensorflow"}  # modules, and Horovod's names
CONTROLLERS = ("mpi", "gloo")
# NVIDIA, "CUDA Compatibility", Minor Version Compatibility: any CUDA 12.x with the driver of 12.0,
# any 13.x with that of 13.0.
# PTX asks for a driver as new as the nvcc that wrote it (12.4: 550.54), but only GPUs newer than
# 9.0 compile it, and those came with driver 570.
OLDEST_DRIVER = {"12": "525.60.13", "13": "580.65.06"}
# What compile.sh compiles Horovod for (x86-64 psABI, table 3.1): the node's CPU must have it.
CPU_LEVELS = {"x86_64": "x86-64-v3"}
OPERATIONS = ("nccl", "ddl", "ccl", "mpi", "gloo")  # in the order of `horovodrun --check-build`


def package_version(pattern: str) -> str:
    """Upstream version of an installed Debian package, e.g. 4.2.2 of 4.2.2-1."""
    query = ["dpkg-query", "--show", "--showformat=${Version}", pattern]
    text = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\d+:|-[^-]*$", "", text)


def first_version(*packages: str) -> str:
    """Version of the first of the packages that is there, "none" without any."""
    for name in packages:
        with contextlib.suppress(PackageNotFoundError):
            return version(name)
    return "none"


def built(horovod: ModuleType, names: tuple[str, ...]) -> str:
    """Those of `names` that Horovod was compiled with. Cheaper than check-build by 15 s."""
    return ",".join(name for name in names if getattr(horovod, f"{name}_built")())


def cuda_labels(cuda: str | None) -> dict[str, str]:
    """What an image for GPUs needs of its host and its GPUs; `cuda` is torch's version of it."""
    if cuda is None:
        return {"cuda.version": "none"}
    major = cuda.partition(".")[0]
    return {
        "cuda.version": cuda,
        "cuda.driver.minimum": OLDEST_DRIVER[major],
        "cuda.capabilities": ",".join(capabilities(horovod_libraries()["torch"])),
        "cudnn.version": version(f"nvidia-cudnn-cu{major}"),
        "nccl.version": version(f"nvidia-nccl-cu{major}"),
    }


def horovod_libraries() -> dict[str, Path]:
    """Horovod's extension for each framework it has; each holds its own copy of the GPU code."""
    folder = Path(sysconfig.get_path("purelib"), "horovod")
    return {name: file for name in FRAMEWORKS for file in (folder / name).glob("mpi_lib*.so")}


def capabilities(library: Path) -> list[str]:
    """Compute capabilities a library has code for, e.g. 7.0, 9.0 and 9.0+PTX, as triton sees it."""
    tool = Path(sysconfig.get_path("purelib"), "triton", "backends", "nvidia", "bin", "cuobjdump")
    listing = [str(tool), "--list-elf", "--list-ptx", str(library)]
    text = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    return parse_capabilities(text)


def parse_capabilities(text: str) -> list[str]:
    """Read cuobjdump's lines such as `ELF file    1: mpi_lib.1.sm_70.cubin`."""
    found = re.findall(r"^(ELF|PTX) file\s+\d+: \S*\.sm_(\d+)(\d)\.", text, re.MULTILINE)
    code = {
        (int(major), int(minor), "+PTX" if kind == "PTX" else "") for kind, major, minor in found
    }
    return [f"{major}.{minor}{ptx}" for major, minor, ptx in sorted(code)]


def labels() -> dict[str, str]:
    """All labels but the project's own, which `runner build` adds with the trainers.

    Raises ImportError when Horovod cannot be imported for one of its frameworks.
    """
    import torch

    found = horovod_libraries()
    modules = {name: importlib.import_module(f"horovod.{name}") for name in found}
    recipes = sorted(preset.stem for preset in TRAINERS.glob("recipes/*.toml"))
    return {
        "horovod.version": version("horovod"),
        "horovod.frameworks": ",".join(FRAMEWORKS[name] for name in found),
        "horovod.controllers": built(modules["torch"], CONTROLLERS),
        "horovod.operations": built(modules["torch"], OPERATIONS),
        "python.version": platform.python_version(),
        "torch.version": version("torch"),
        "torchvision.version": version("torchvision"),
        "tensorflow.version": first_version("tensorflow", "tensorflow-cpu"),
        "mpi.flavour": "openmpi",
        "mpi.version": package_version("libopenmpi[0-9]*"),
        "mpi4py.version": version("mpi4py"),
        "pmix.version": package_version("libpmix2*"),
        "glibc.version": platform.libc_ver()[1],
        **cuda_labels(torch.version.cuda),
        "architecture": platform.machine(),
        "cpu.level": CPU_LEVELS.get(platform.machine(), "any"),
        **({"recipes": ",".join(recipes)} if recipes else {}),
    }


if __name__ == "__main__":
    for key, value in labels().items():
        print(key, value)
