"""The frameworks whose worlds the gate checks."""

HOROVOD, TORCH, TENSORFLOW, MPI = "Horovod", "torch.distributed", "tf.distribute", "mpi4py"
FRAMEWORKS = (HOROVOD, TORCH, TENSORFLOW, MPI)
