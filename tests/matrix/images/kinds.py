"""What each image is made of, and the names of the results that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from containers import definition, image_catalogue, lockfile
from runners.core import digest

HERE = Path(__file__).parent
CODENAME = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
# What PyTorch and Horovod need of the CPU image's lock.
WANTED = "|".join(
    (
        *("torch", "numpy", "filelock", "typing-extensions", "sympy", "mpmath", "networkx"),
        *("jinja2", "markupsafe", "fsspec", "cloudpickle", "psutil", "pyyaml", "packaging"),
        *("cffi", "pycparser", "setuptools"),
    )
)


@dataclass(frozen=True)
class Kind:
    """An image; the lock names the wheel of its MPI."""

    name: str
    lock: str
    has_mpi: bool = True

    @property
    def lock_file(self) -> Path:
        """The lock of its MPI."""
        return HERE / self.lock


KINDS = {
    kind.name: kind
    for kind in (
        Kind("openmpi5", "openmpi5.lock"),
        Kind("mpich", "mpich.lock"),
        Kind("nompi", "none.lock", has_mpi=False),
    )
}
LOCK = image_catalogue.HERE / image_catalogue.image("cpu").lock


def compile_packages() -> tuple[str, ...]:
    """Debian's packages to compile with."""
    return tuple(definition.packages(HERE / "compile.def"))


def compiled(kind: Kind) -> str:
    """The name of the folder of its compiled Horovod."""
    edits = sorted((image_catalogue.HERE / "horovod").rglob("*.*"))
    files = digest.of_files(
        [HERE / "compile.def", kind.lock_file, *edits], image_catalogue.CHECKOUT
    )
    return f"horovod-{digest.key(files=files, mpi=str(kind.has_mpi), pins=_pins())}"


def file_name(kind: Kind) -> str:
    """The name of the image's file."""
    key = digest.key(
        files=digest.of_files([HERE / "image.def", kind.lock_file], image_catalogue.CHECKOUT),
        packages=" ".join(PACKAGES),
        pins=_pins(),
        horovod=compiled(kind),
    )
    return f"{kind.name}-{key}.sif"


def _pins() -> str:
    """What is taken of the CPU image's lock, whose other changes make no new images here."""
    taken = re.compile(f"{WANTED}|horovod|cmake|wheel")
    pins = [*lockfile.read(LOCK), *lockfile.build(LOCK)]
    return "\n".join(sorted(pin.line() for pin in pins if taken.fullmatch(pin.name)))
