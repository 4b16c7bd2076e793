"""The check as one rank: ldd first, then the hello, in a child so that its end can be told."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from typing import Any

from .. import failure_kinds as kinds
from ..rank import failure, task
from ..rank.failure import Problem
from . import EXIT_HOST_MPI, libraries

MPICH_COMM_WORLD = 0x44000000  # the MPICH ABI, of which Cray's and Intel's are
SECONDS = 120  # MPI_Init takes a few, on the slowest of systems


def main(argv: list[str]) -> int:
    """Check, say what was found; return 0, or EXIT_HOST_MPI after the failure was recorded."""
    parser = argparse.ArgumentParser(prog="mpicheck")
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--run-dir", required=True)
    options = parser.parse_args(argv)
    me = task.read(options.launcher, os.environ)
    problem = _libraries() or _hello(me)
    if not problem:
        return 0
    if me.local_rank == 0:
        print(f"runner: host MPI: {problem}", flush=True)
    failed = Problem(kinds.HOST_MPI, f"host MPI: {problem}", {"error": problem})
    failure.record(me, EXIT_HOST_MPI, failed, options.run_dir)
    return EXIT_HOST_MPI


def _libraries() -> str:
    where = libraries.libmpi()
    if where is None:
        return "there is no Horovod with MPI in the image"
    answer = libraries.ldd(where) if where else ""
    return libraries.problem(where, answer, os.environ.get("LD_LIBRARY_PATH", ""))


def _hello(me: task.Task) -> str:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os._exit(_say_hello(me))
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"the hello did not end within {SECONDS} s"
        return f"the hello was ended by signal {number}"
    if os.WEXITSTATUS(status) == EXIT_HOST_MPI:
        return f"MPI did not see the {me.size} ranks that were started (the lines above)"
    return "the hello failed (the lines above)" if status else ""


def _say_hello(me: task.Task) -> int:
    where = libraries.libmpi() or ""
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
