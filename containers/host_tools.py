"""What of a host an environment is compiled with: Python, compilers, MPI, and the modules loaded.

Facts: FindMPI (cmake.org) looks for `mpiexec` on the PATH, and for `mpicxx` beside it before it
looks elsewhere (seen with CMake 3.31); it needs neither where the compiler itself is MPI's, as
Cray's `CC` is (HPE Cray Programming Environment, cc(1)).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.core.errors import Refused, SystemFault, UsageError

# $@: modules, each with its alternatives. Prints what a login shell and they set, as NAME=VALUE
# with \0 between.
LOAD = """\
for names; do
    IFS='|' read -ra alternatives <<< "$names"
    for name in "${alternatives[@]}"; do module load "$name" >&2 && continue 2; done
    exit 1
done
exec env -0"""
NO_PYTHON = """\
there is no Python {version} on this machine, for which the lock has packages
try: module load python/{version}, or conda create -p DIR python={version} and PATH=DIR/bin:$PATH"""
NO_COMPILER = """\
there is no C++ compiler to compile Horovod with: {program} is not on the PATH
try: --module gcc, or conda install -p DIR gxx_linux-64"""
NO_HEADERS = """\
{python} has no headers to compile against: {folder}/Python.h is not there
try: the package python{version}-dev, or for your environment: runner build horovod --into DIR"""
NOT_COMPILED = """\
{compiler} does not compile a program with MPI
{said}
try: --module, or --mpi DIR, of an MPI with its headers and the compiler that it was made with"""
PROGRAM = "#include <mpi.h>\nint main() { return MPI_Init(nullptr, nullptr); }\n"
ASK_PYTHON = "import sysconfig; print(sysconfig.get_path('include'))"
# The C library: libmpi.so, MPICH's libmpich.so, Cray's libmpi_gnu_123.so and the like.
LIBRARY = re.compile(r"=> (/\S*/libmpi(?:ch|_(?!cxx|mpifh|usempi)\w+)?\.so\S*)")


@dataclass(frozen=True)
class Mpi:
    """An MPI to compile with: its C++ compiler, which Cray's own also is for everything else."""

    compiler: Path
    cray: bool = False

    def variables(self, folder: Path, path: str) -> dict[str, str]:
        """Return what leads CMake to it; `folder` is an empty one, named bin, for the PATH."""
        if self.cray:
            return {"CC": "cc", "CXX": str(self.compiler)}
        (folder / "mpicxx").symlink_to(self.compiler)
        starter = self.compiler.with_name(self.compiler.name.replace("mpicxx", "mpiexec"))
        if starter != self.compiler:
            (folder / "mpiexec").symlink_to(starter)
        return {"PATH": f"{folder}{os.pathsep}{path}"}


def with_modules(
    modules: Sequence[str], environ: Mapping[str, str], before: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment with modules loaded, as a job does. Raises UsageError.

    `before` are lines of bash such as `module purge`.
    """
    if not modules:
        return dict(environ)
    command = ["bash", "-lc", "\n".join([*before, LOAD]), "bash", *modules]
    done = subprocess.run(command, env=dict(environ), capture_output=True)
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip()
        what = f"--module {' --module '.join(modules)}: cannot be loaded here"
        raise UsageError(
            what,
            output,
            "module avail, which lists the modules of this machine",
            id="module-not-loadable",
        )
    pairs = done.stdout.decode(errors="surrogateescape").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def find_mpi(wanted: str, environ: Mapping[str, str]) -> Mpi | None:
    """Return the MPI of a folder or a compiler, else of the PATH; None without. UsageError."""
    path = environ.get("PATH", os.defpath)
    if wanted:
        return Mpi(_compiler(Path(wanted)))
    if environ.get("CRAYPE_VERSION") and (program := shutil.which("CC", path=path)):
        return Mpi(Path(program), cray=True)
    program = shutil.which("mpicxx", path=path)
    return Mpi(Path(program)) if program else None


def _compiler(wanted: Path) -> Path:
    """Return the C++ compiler of an MPI. Raises UsageError."""
    file = wanted.absolute() / "bin" / "mpicxx" if wanted.is_dir() else wanted.absolute()
    if not os.access(file, os.X_OK) or file.is_dir():
        raise UsageError(
            f"--mpi {wanted}: there is no C++ compiler of an MPI, {file}", id="mpi-compiler-missing"
        )
    return file


def find_python(version: str, environ: Mapping[str, str]) -> Path:
    """Return the Python of that version, the system's own rather than another. Raises Refused."""
    name, path = f"python{version}", environ.get("PATH", os.defpath)
    for folders in (os.defpath, path):
        program = shutil.which(name, path=folders)
        if program:
            return Path(program)
    raise Refused(NO_PYTHON.format(version=version), id="python-missing")


def check_python(python: Path, version: str) -> None:
    """Raise Refused for a Python that does not run, or has not what compiling needs."""
    done = subprocess.run([str(python), "-c", ASK_PYTHON], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{python} does not run\n{done.stderr.strip()}", id="python-does-not-run")
    folder = done.stdout.strip()
    if not Path(folder, "Python.h").exists():
        raise Refused(
            NO_HEADERS.format(python=python, folder=folder, version=version),
            id="python-headers-missing",
        )


def check_compiler(environ: Mapping[str, str]) -> None:
    """Raise Refused without a C++ compiler."""
    program = environ.get("CXX") or "g++"
    if not shutil.which(program.split()[0], path=environ.get("PATH", os.defpath)):
        raise Refused(NO_COMPILER.format(program=program), id="compiler-missing")


def library(mpi: Mpi, environ: Mapping[str, str], folder: Path) -> str:
    """Compile a program with it; return the library of the program. Raises Refused."""
    source, program = folder / "mpi.cpp", folder / "mpi"
    source.write_text(PROGRAM)
    command, env = [str(mpi.compiler), str(source), "-o", str(program)], dict(environ)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise Refused(
            NOT_COMPILED.format(compiler=mpi.compiler, said=done.stderr.strip()),
            id="mpi-does-not-compile",
        )
    return linked_mpi(program, environ)


def check_linked(mpi: Mpi, wanted: str, library: str) -> None:
    """Raise SystemFault where Horovod was linked with another MPI than what `mpi` compiles."""
    if library != wanted:
        what = f"Horovod was linked with {library or 'no MPI'}, which is not that of {mpi.compiler}"
        raise SystemFault(
            f"{what}\ntry: --module, or a PATH, with that MPI alone",
            wanted,
            id="mpi-not-the-compilers",
        )


def linked_mpi(binary: Path, environ: Mapping[str, str]) -> str:
    """Return the MPI library with which a compiled file is loaded, "" for none."""
    done = subprocess.run(["ldd", str(binary)], env=dict(environ), capture_output=True, text=True)
    match = LIBRARY.search(done.stdout)
    return os.path.realpath(match.group(1)) if match else ""
