"""What the trainers share: options, shards, the learning rate, checkpoints, the record of a run.

Needs numpy and the standard library only; a trainer passes its own `hvd` module in
(`horovod.torch` or `horovod.tensorflow`), so this package serves both frameworks.
"""

from .adasum import check_adasum
from .before import before_init
from .benchmark import benchmark
from .checkpoints import Position
from .dealing import deal, deal_whole_steps
from .ending import leave, together
from .errors import EXIT_SAVED, Diverged, UserError
from .options import (
    Parser,
    add_common,
    fraction,
    natural_float,
    natural_int,
    parse,
    positive_float,
    positive_int,
)
from .places import threads
from .rates import SCHEDULES, decay, learning_rate
from .run import Run, State
from .shards import Batch, Indices, Shards, chunks, evaluation_share
from .weights import assert_identical, digest, signature

__all__ = [
    "EXIT_SAVED",
    "SCHEDULES",
    "Batch",
    "Diverged",
    "Indices",
    "Parser",
    "Position",
    "Run",
    "Shards",
    "State",
    "UserError",
    "add_common",
    "assert_identical",
    "before_init",
    "benchmark",
    "check_adasum",
    "chunks",
    "deal",
    "deal_whole_steps",
    "decay",
    "digest",
    "evaluation_share",
    "fraction",
    "learning_rate",
    "leave",
    "natural_float",
    "natural_int",
    "parse",
    "positive_float",
    "positive_int",
    "signature",
    "threads",
    "together",
]
