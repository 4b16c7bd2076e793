"""Checks the host's MPI inside the image, as each rank, before the ranks start.

First it asks ldd whether Horovod's extension is linked with the host's MPI, and all its libraries
are found. Then a child joins MPI's world: if MPI ends it, the parent can still say how.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import re
import signal
import subprocess
import sys
from typing import Any

from ..contract.exit_codes import EXIT_HOST_MPI
from ..contract.failure_kinds import FailureKind
from ..contract.parts import NO_DISPLAY
from . import task
from .problems import Problem
from .rank import failures

MPICH_COMM_WORLD = 0x44000000  # the MPICH ABI, of which Cray's and Intel's are
SECONDS = 120  # MPI_Init takes a few, on the slowest of systems
FOUND = re.compile(r"^\s*(\S+) => (\S+) \(0x", re.MULTILINE)
MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
TOO_NEW = re.compile(r"version `(\S+)' not found \(required by (\S+)\)")
MPI = re.compile(r"libmpi\.so(\.\d+)*")


def main(argv: list[str]) -> int:
    """Run both checks; return 0, or record the failure and return EXIT_HOST_MPI."""
    launcher, run_dir = argv
    os.environ.setdefault(*NO_DISPLAY)
    me = task.read(launcher, os.environ)
    where = libmpi()
    if where is None:
        problem = "there is no Horovod with MPI in the image"
    else:
        answer = ldd(where) if where else ""
        problem = problem_of(where, answer, os.environ.get("LD_LIBRARY_PATH", ""))
        problem = problem or _hello(me, where)
    if not problem:
        return 0
    if me.local_rank == 0:
        print(f"runner: host MPI: {problem}", flush=True)
    failed = Problem(FailureKind.HOST_MPI, f"host MPI: {problem}", {"error": problem})
    failures.record(me, EXIT_HOST_MPI, failed, run_dir)
    return EXIT_HOST_MPI


def _hello(me: task.Task, where: str) -> str:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os._exit(_say_hello(me, where))
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"the hello did not end within {SECONDS} s"
        return f"the hello was ended by signal {number}"
    if os.WEXITSTATUS(status) == EXIT_HOST_MPI:
        return f"MPI did not see the {me.size} ranks that were started (the lines above)"
    return "the hello failed (the lines above)" if status else ""


def _say_hello(me: task.Task, where: str) -> int:
    try:
        size, rank, version = mpi_world(where)
    except (OSError, AttributeError) as error:
        print(f"{me.name} | {error}", flush=True)
        return 1
    if size != me.size:
        print(f"{me.name} | MPI sees rank {rank} of {size}, by {version}", flush=True)
        return EXIT_HOST_MPI
    if rank == 0:
        print(f"runner: host MPI: {version}, {where}, {size} ranks", flush=True)
    return 0


def mpi_world(path: str) -> tuple[int, int, str]:
    """Join MPI's world with the library at `path`; return size, rank and the library's version.

    Raises OSError when the library cannot be loaded; MPI itself ends the process on errors.
    """
    mpi = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    comm = _comm_world(mpi)
    mpi.MPI_Init(None, None)
    size, rank, length = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Comm_size(comm, ctypes.byref(size))
    mpi.MPI_Comm_rank(comm, ctypes.byref(rank))
    text = ctypes.create_string_buffer(8192)  # MPI_MAX_LIBRARY_VERSION_STRING is less in all
    mpi.MPI_Get_library_version(text, ctypes.byref(length))
    mpi.MPI_Barrier(comm)
    mpi.MPI_Finalize()
    version = text.value.decode("utf-8", "replace").splitlines()[0].split(",")[0].strip()
    return size.value, rank.value, version


def _comm_world(mpi: Any) -> Any:
    """Return MPI_COMM_WORLD: the address of an object in Open MPI, a number in MPICH."""
    try:
        return ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
    except ValueError:
        return ctypes.c_int(MPICH_COMM_WORLD)


def libmpi() -> str | None:
    """Return where the MPI library of Horovod's extension is, "" when it is not found.

    It is None without an extension that is linked with one. Nothing is imported.
    """
    spec = importlib.util.find_spec("horovod")
    folders = (spec and spec.submodule_search_locations) or []
    for path in (path for f in folders for path in sorted(glob.glob(f"{f}/*/mpi_lib*.so"))):
        for name, where in linked(ldd(path)).items():
            if MPI.fullmatch(name):
                return where
    return None


def ldd(path: str) -> str:
    command, pipe = ["ldd", path], subprocess.PIPE
    return subprocess.run(
        command, stdout=pipe, stderr=subprocess.STDOUT, text=True, check=False
    ).stdout


def linked(text: str) -> dict[str, str]:
    """Return the libraries in ldd's answer: where each is, "" when it is not found."""
    return {**dict.fromkeys(MISSING.findall(text), ""), **dict(FOUND.findall(text))}


def problem_of(where: str, answer: str, library_path: str) -> str:
    """Return what is wrong with the MPI library at `where`, "" when nothing is.

    `answer` is what ldd says of it, `library_path` is LD_LIBRARY_PATH in the container.
    """
    if not where:
        return "Horovod's libmpi is not found in the image, nor among the host's libraries"
    folders = [os.path.realpath(folder) for folder in library_path.split(":") if folder]
    if os.path.dirname(os.path.realpath(where)) not in folders and (
        os.path.realpath(os.path.dirname(where)) not in folders
    ):
        return f"Horovod finds the image's own MPI, {where}; the host's are in {library_path}"
    too_new = sorted(set(TOO_NEW.findall(answer)))
    if too_new:
        version, by = too_new[-1]
        return f"the image's C library is too old for the host's MPI: {by} needs {version}"
    missing = sorted(name for name, path in linked(answer).items() if not path)
    if missing:
        return f"the host's MPI, {where}, lacks {', '.join(missing)} in the image"
    return ""
