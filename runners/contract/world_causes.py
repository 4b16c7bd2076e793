"""Says why ranks are not one world, and what to change, in the job and in `runner explain`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .enums import ProcessGroup

INDEPENDENT = "for ranks that are independent on purpose: runner launch --no-gate ..."
KNOWN = "Horovod, torch.distributed, MultiWorkerMirroredStrategy and mpi4py"
ON_PURPOSE = "or, for ranks that train models of their own on purpose: runner launch --no-gate ..."
# Modules -> why a trainer that has imported them may run alone, and what makes it join the others.
# What is built on another comes before it.
LIGHTNING = (
    'Lightning\'s Trainer used one node: strategy="auto" and num_nodes=1 are its defaults',
    'Trainer(num_nodes=NODES, strategy="ddp")',
)
COULD = {
    "lightning": LIGHTNING,
    "pytorch_lightning": LIGHTNING,
    "accelerate": (
        "it created no Accelerator() or Trainer, which would have joined the ranks",
        "accelerator = Accelerator(), and accelerator.prepare(model, optimizer, data)",
    ),
    "horovod": ("it imported Horovod and did not call hvd.init()", "hvd.init()"),
    "tensorflow": (
        "it used no strategy of several nodes: MirroredStrategy is one of a single node",
        "tf.distribute.MultiWorkerMirroredStrategy(), and runner launch --tf-config ...",
    ),
    "torch": (
        "it did not call init_process_group()",
        "torch.distributed.init_process_group() and DistributedDataParallel(model)",
    ),
}


def why_alone(alone: Collection[str], imports: Sequence[str]) -> tuple[str, str]:
    """Return why a rank ran alone, and what to do; `alone` are frameworks with a part of the ranks.

    It had imported `imports`, in the order of COULD.
    """
    if ProcessGroup.HOROVOD in alone:
        return (
            "hvd.init(comm=...) made a world of a part of the ranks",
            "hvd.init() without comm; process sets for groups of ranks",
        )
    for name in imports:
        if name in COULD:  # a record may have another's
            return COULD[name]
    cause = "it called neither hvd.init(), init_process_group(), nor another of " + KNOWN
    return cause, INDEPENDENT


def why_several(framework: str) -> tuple[str, str]:
    """Return the likely cause of several worlds of the right size, and what to do."""
    launchers = (
        "mpirun or horovodrun"
        if framework in (ProcessGroup.HOROVOD, ProcessGroup.MPI)
        else "mp.spawn or torchrun"
    )
    cause = (
        f"each task starts ranks of its own ({launchers} within the trainer), which meet on "
        "their own node only, as with MASTER_ADDR=localhost"
    )
    remedy = (
        "runner launch --ntasks-per-node N ... train.py, where the script starts no processes and "
        "sets no MASTER_ADDR: runner starts the ranks"
    )
    return cause, remedy
