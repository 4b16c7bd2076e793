"""The labels that an image will get, from its definition and lock alone: nothing is built.

`horovod_image/labels.py` computes them in the image; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from runners.core.machine import MACHINES

from . import debian, lockfile
from .horovod_image import labels, selftest
from .image_catalogue import CHECKOUT, HERE, Image

REVISION = re.compile(r"^\d+:|-[^-]*$")  # of a Debian version, epoch and packaging
OPERATIONS = {"": "mpi,gloo", "12": "nccl,mpi,gloo", "13": "nccl,mpi,gloo"}  # by CUDA's release


def of(image: Image) -> dict[str, str]:
    """Return the labels of an image that is built from the files as they are."""
    path = HERE / image.lock
    wheels = {pin.name: pin.version for pin in lockfile.read(path)}
    built = {pin.name: pin.version for pin in lockfile.build(path)}
    packages = lockfile.debian(path, debian.SECTIONS[0])
    machine = MACHINES[image.architecture]
    cuda = next(
        (major for major in selftest.CAPABILITIES if f"nvidia-nccl-cu{major}" in wheels), ""
    )
    return {
        "horovod.version": built["horovod"],
        "horovod.frameworks": ",".join(_frameworks(wheels)),
        "horovod.controllers": ",".join(labels.CONTROLLERS),
        "horovod.operations": OPERATIONS[cuda],
        "python.version": _upstream(packages, f"python{image.python}"),
        "torch.version": wheels["torch"],
        "torchvision.version": wheels["torchvision"],
        "tensorflow.version": wheels.get("tensorflow") or wheels.get("tensorflow-cpu") or "none",
        "mpi.flavour": "openmpi",
        "mpi.version": _upstream(packages, "libopenmpi[0-9]*"),
        "mpi4py.version": wheels["mpi4py"],
        "pmix.version": _upstream(packages, "libpmix2*"),
        "glibc.version": f"2.{image.glibc_minor}",
        **_cuda(cuda, wheels),
        "architecture": machine,
        "cpu.level": labels.CPU_LEVELS.get(machine, "any"),
        "recipes": ",".join(sorted(preset.stem for preset in CHECKOUT.glob("recipes/*.toml"))),
    }


def _frameworks(wheels: Mapping[str, str]) -> Iterator[str]:
    for module, name in labels.FRAMEWORKS.items():
        if module in wheels or f"{module}-cpu" in wheels:
            yield name


def _upstream(packages: Mapping[str, str], pattern: str) -> str:
    """Return the upstream version of the Debian package whose name fits a pattern."""
    name = next(name for name in packages if fnmatchcase(name, pattern))
    return REVISION.sub("", packages[name])


def _cuda(major: str, wheels: Mapping[str, str]) -> dict[str, str]:
    if not major:
        return {"cuda.version": "none"}
    runtime = wheels.get(f"nvidia-cuda-runtime-cu{major}") or wheels["nvidia-cuda-runtime"]
    return {
        "cuda.version": ".".join(runtime.split(".")[:2]),
        "cuda.driver.minimum": labels.OLDEST_DRIVER[major],
        "cuda.capabilities": ",".join(sorted(selftest.CAPABILITIES[major], key=_number)),
        "cudnn.version": wheels[f"nvidia-cudnn-cu{major}"],
        "nccl.version": wheels[f"nvidia-nccl-cu{major}"],
    }


def _number(capability: str) -> tuple[float, str]:
    number, plus, form = capability.partition("+")
    return float(number), plus + form
