"""Sum the ranks with the Open MPI of the nodes, without a compiler: `srun --mpi=pmix` test."""

from __future__ import annotations

import ctypes
import time

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
# Open MPI's ABI: MPI_COMM_WORLD and the rest are addresses of these objects.
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
as_int = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_int"))
add = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_op_sum"))
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()

mpi.MPI_Init(None, None)
# NOTE: a message that meets a rank still in MPI_Init ends it with a segmentation fault at 0xe0, on
# a busy machine (Open MPI 5.0.3 to 5.0.7 under srun; github.com/open-mpi/ompi/issues/12495).
time.sleep(0.5)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, as_int, add, world)
print(f"rank {rank.value} of {size.value}: sum {total.value}")
mpi.MPI_Finalize()
