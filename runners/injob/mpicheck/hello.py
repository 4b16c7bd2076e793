"""An MPI hello by way of ctypes: do the ranks that were started form one world?"""

from __future__ import annotations

import ctypes
from typing import Any

MPICH_COMM_WORLD = 0x44000000  # the MPICH ABI, of which Cray's and Intel's are


def world(path: str) -> tuple[int, int, str]:
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
