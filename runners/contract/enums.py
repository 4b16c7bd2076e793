"""Names that the options, records and messages of a job share."""

from __future__ import annotations

from .words import WordEnum


class Controller(WordEnum):
    """Horovod's controller, or that Horovod is not used."""

    MPI = "mpi"
    GLOO = "gloo"
    NONE = "none"


class ProcessGroup(WordEnum):
    """What creates the process group of a trainer's ranks: the world that the gate checks."""

    HOROVOD = "Horovod"
    TORCH = "torch.distributed"
    TENSORFLOW = "tf.distribute"
    MPI = "mpi4py"
    NONE = "none"  # one process, which trains no network


GATED = tuple(group for group in ProcessGroup if group is not ProcessGroup.NONE)
