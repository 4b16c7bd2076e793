"""What the trainers share: shards, the learning rate, checkpoints, the record of a run.

Needs numpy and the standard library only; a trainer passes its own `hvd` module in
(`horovod.torch` or `horovod.tensorflow`), so this package serves both frameworks.
"""

from recipes.errors import EXIT_SAVED, UserError

from .abort import leave, on_all_ranks
from .files import Sum, write_atomically
from .placement import threads
from .run import Run
from .steps import (
    EVALUATION_BATCH,
    Batch,
    Indices,
    Loop,
    Position,
    Shards,
    chunks,
    decay,
    evaluation_share,
    learning_rate,
)
from .weights import digest, signature

__all__ = [
    "EVALUATION_BATCH", "EXIT_SAVED", "Batch", "Indices", "Loop", "Position", "Run", "Shards",
    "Sum", "UserError", "chunks", "decay", "digest", "evaluation_share", "learning_rate",
    "leave", "on_all_ranks", "signature", "threads", "write_atomically",
]  # fmt: skip
