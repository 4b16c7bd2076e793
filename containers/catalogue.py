"""The images this folder can build, and the files that decide what is in each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import Refused

CHECKOUT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
INSIDE = "horovod_image"  # the package of ours that is copied into every image


@dataclass(frozen=True)
class Image:
    """One image. File names are relative to containers/."""

    name: str  # horovod_cpu for horovod_cpu.sif
    definition: str
    wheel_definition: str
    lock: str  # what is installed in the image
    build_lock: str  # what compiling Horovod needs besides
    codename: str  # Debian release of the base
    python: str  # of that release; the locked wheels are for it

    def locks(self) -> tuple[Path, Path]:
        """Both lock files."""
        return HERE / self.lock, HERE / self.build_lock


IMAGES = {
    "cpu": Image(
        name="horovod_cpu",
        definition="horovod_cpu.def",
        wheel_definition="horovod_wheel.def",
        lock="horovod_cpu.lock",
        build_lock="horovod_build.lock",
        codename="bookworm",
        python="3.11",
    ),
}


def image(name: str) -> Image:
    """Return the image of that short name; Refused when there is none."""
    if name not in IMAGES:
        raise Refused(f"no image named '{name}'; there is: {', '.join(IMAGES)}")
    return IMAGES[name]
