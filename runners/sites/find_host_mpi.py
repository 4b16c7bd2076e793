"""Finds the libraries of the MPI whose mpirun is on the PATH, with all that they need.

A prefix of its own, such as /opt/openmpi-4.1.4, is bound as it is. What lies among the system's
libraries is bound file by file into a folder of its own: the host's C library must stay out of
the container.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..core import shell
from ..core.site import HostMpi

TARGET = "/host-mpi"
SECONDS = 10
SYSTEM = (Path("/"), Path("/usr"), Path("/usr/local"))
FOLDERS = ("lib", "lib64", "lib/*")
# Part of the C library and of the compiler: the image's own serve its Python, and must stay.
IMAGES_OWN = re.compile(
    r"(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnsl|libanl"
    r"|libgcc_s|libstdc\+\+|libgfortran|libquadmath)\.so.*"
)
LINE = re.compile(r"^\s*(\S+) => (/\S+) \(0x", re.MULTILINE)


def libraries() -> HostMpi | None:
    """Return what to bind and LD_LIBRARY_PATH, None where there is no mpirun or no library."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        return None
    prefix = Path(mpirun).resolve().parent.parent
    libmpi = _library(prefix)
    if libmpi is None:
        return None
    return described(
        prefix, libmpi, parse_ldd(shell.run(["ldd", str(libmpi)], timeout=SECONDS).out)
    )


def _library(prefix: Path) -> Path | None:
    """Return libmpi.so.N of a prefix, without the names of its exact version."""
    libraries = [
        path
        for folder in FOLDERS
        for path in prefix.glob(f"{folder}/libmpi.so.*")
        if re.fullmatch(r"libmpi\.so\.\d+", path.name)
    ]
    return next(iter(libraries), None)


def parse_ldd(text: str) -> dict[str, Path]:
    return {name: Path(path) for name, path in LINE.findall(text)}


def described(prefix: Path, libmpi: Path, needs: dict[str, Path]) -> HostMpi:
    """Return mounts and library path for a libmpi and what it needs."""
    own_prefix = prefix not in SYSTEM
    files = {libmpi.name: libmpi, **needs}
    others = {
        name: path
        for name, path in files.items()
        if not IMAGES_OWN.fullmatch(name) and not (own_prefix and prefix in path.parents)
    }
    binds = [str(prefix)] if own_prefix else []
    binds += [f"{path}:{TARGET}/{name}" for name, path in sorted(others.items())]
    binds += [
        str(folder)
        for folder in _plugins(files.values())
        if not own_prefix or prefix not in folder.parents
    ]
    paths = [str(libmpi.parent)] if own_prefix else []
    return HostMpi(tuple(binds), ":".join([*paths, *([TARGET] if others else [])]))


def _plugins(libraries: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders of plugins, which libraries load by their full path.

    mca_*.so are Open MPI's, pmix_mca_*.so PMIx's; libmca_*.so are libraries like others.
    """
    for folder in sorted({path.resolve().parent for path in libraries}):
        files = [
            file for form in ("mca_*.so", "pmix_mca_*.so") for file in folder.glob(f"*/{form}")
        ]
        yield from sorted({file.parent for file in files})
