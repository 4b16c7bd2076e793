"""The images this folder can build, and the files that decide what is in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runners.core.disk_space import Needs
from runners.core.errors import Refused, UsageError
from runners.core.machine import AMD64, ARM64

from . import definition

CHECKOUT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
BUILD_INPUT, SOURCE_INPUT = "horovod_build.in", "horovod_source.in"
INSIDE = "horovod_image"  # the package of ours that is copied into every image


@dataclass(frozen=True)
class Image:
    """One image. File names are relative to containers/."""

    short: str  # cpu, as in `runner build cpu`
    name: str  # horovod_cpu for horovod_cpu.sif
    definition: str
    wheel_definition: str
    lock: str  # of wheels and Debian packages; containers/lock.py writes it
    slim: str  # what is taken out of the packages
    needs: Needs  # of a build from nothing, at its peak
    needs_for_trainers: Needs  # of one that only renews the trainers
    codename: str  # Debian release of the base
    glibc_minor: int  # of that release, 2.N: wheels may need no newer one
    registry_base: str  # the same release in a registry
    python: str  # of that release; the locked wheels are for it
    architecture: str = AMD64
    # Sections of Debian's archive; CUDA's compiler is in non-free, what it needs in contrib.
    components: tuple[str, ...] = ("main",)
    provided: frozenset[str] = frozenset()  # packages that others ask for and the image leaves out
    requirements: tuple[str, ...] = ()  # what the lock is made from
    build_inputs: tuple[str, ...] = (BUILD_INPUT,)  # what compiling Horovod needs besides
    compiler_packages: tuple[str, ...] = ()  # of Debian, beside those of the wheel's definition
    # Seconds that each kind of step takes on two idle cores.
    usual: Mapping[str, int] = field(default_factory=dict)

    def packages(self, path: Path) -> list[str]:
        """Return the Debian packages that one of its definitions asks for. Raises UsageError."""
        more = self.compiler_packages if path.name == self.wheel_definition else ()
        return [*definition.packages(path), *more]


IMAGES = {
    "cpu": Image(
        short="cpu",
        name="horovod_cpu",
        definition="horovod_cpu.def",
        wheel_definition="horovod_wheel.def",
        lock="horovod_cpu.lock",
        requirements=("horovod_cpu.in",),
        slim="horovod_cpu.slim",
        # Measured: packages of 2.8 GB in 63,000 files, the base to compile in of 0.6 GB in 16,000
        # twice; then 0.6 packed.
        needs=Needs(6 * 10**9, 120_000),
        needs_for_trainers=Needs(2 * 10**9, 1_000),
        codename="bookworm",
        registry_base="debian:12-slim",
        usual={
            "wheels": 30,
            "base": 30,
            "horovod": 110,
            "environment": 90,
            "image": 15,
            "packages": 30,  # installed for the environment alone, where Horovod is there
        },
        glibc_minor=36,
        python="3.11",
        # tf-keras asks for `tensorflow`; tensorflow-cpu is the same without the CUDA parts.
        provided=frozenset({"tensorflow"}),
    ),
    "gpu": Image(
        short="gpu",
        name="horovod_gpu",
        definition="horovod_gpu.def",
        wheel_definition="horovod_wheel_gpu.def",
        lock="horovod_gpu.lock",
        requirements=("horovod_gpu.in", "horovod_gpu_both.in"),
        slim="horovod_gpu.slim",
        # Measured: packages of 9 GB in 69,000 files, the base to compile in of 3.2 GB in 19,000
        # twice; then 4.1 packed.
        needs=Needs(20 * 10**9, 140_000),
        needs_for_trainers=Needs(10 * 10**9, 1_000),
        codename="trixie",
        registry_base="debian:13-slim",
        usual={
            "wheels": 60,
            "base": 60,
            "horovod": 150,
            "environment": 140,
            "image": 40,
            "packages": 90,
        },
        glibc_minor=41,
        python="3.13",
        components=("main", "contrib", "non-free"),
        compiler_packages=("nvidia-cuda-toolkit",),
    ),
}
# PyTorch alone: TensorFlow has no build with CUDA 13.
IMAGES["gpu13"] = replace(
    IMAGES["gpu"],
    short="gpu13",
    name="horovod_gpu13",
    lock="horovod_gpu13.lock",
    requirements=("horovod_gpu13.in", "horovod_gpu_both.in"),
    slim="horovod_gpu13.slim",
    needs_for_trainers=Needs(8 * 10**9, 1_000),
    components=Image.components,
    compiler_packages=Image.compiler_packages,
    build_inputs=(BUILD_INPUT, "horovod_build_cuda13.in"),
)


FOR_ARM = {
    # TensorFlow has one build for Arm, and so what others ask for is in the image.
    "cpu": replace(
        IMAGES["cpu"],
        architecture=ARM64,
        lock="horovod_cpu.arm64.lock",
        provided=frozenset(),
    ),
    "gpu13": replace(IMAGES["gpu13"], architecture=ARM64, lock="horovod_gpu13.arm64.lock"),
}


def image(name: str, architecture: str = AMD64) -> Image:
    """Return the image of that name, short or long, as it is for an architecture.

    Raises UsageError when there is none of that name, Refused when there is none for it.
    """
    short = next(
        (listed.short for listed in IMAGES.values() if name in (listed.short, listed.name)), ""
    )
    if not short:
        raise UsageError(
            f"no image named '{name}'; there is: {', '.join(IMAGES)}\n"
            "For a definition file of your own, name the file: runner build my.def",
            id="image-unknown",
        )
    of_architecture = {AMD64: IMAGES, ARM64: FOR_ARM}.get(architecture, {})
    if short in of_architecture:
        return of_architecture[short]
    why = f"there is one for {AMD64} and for {ARM64}"
    instead = "runner build --from docker://nvcr.io/nvidia/pytorch:25.01-py3 --horovod"
    if architecture == ARM64:
        why = "TensorFlow has no build with CUDA for it; PyTorch has one, with CUDA 13"
        instead = "runner build gpu13"
    raise Refused(
        f"there is no {short} image for {architecture}",
        why,
        instead,
        id="image-not-for-architecture",
    )
