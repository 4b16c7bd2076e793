"""The learning rate for many ranks: warm-up and schedule."""

from __future__ import annotations

import math
from argparse import Namespace

#: Where `step` divides the rate by ten: after 30, 60 and 80 of 90 epochs (Goyal et al.).
STEPS = (30 / 90, 60 / 90, 80 / 90)


def learning_rate(args: Namespace, size: int, progress: float) -> float:
    """Return the rate after `progress` epochs: from the base rate up to `scale` times it.

    Reached after `--warmup-epochs`, constant then: at once, it makes training diverge (Goyal et
    al. 2017, arXiv:1706.02677).
    """
    reached = 1.0 if progress >= args.warmup_epochs else progress / args.warmup_epochs
    base: float = args.base_lr
    return base * (1 + (scale(args, size) - 1) * reached)


def scale(args: Namespace, size: int) -> int:
    """Return by how much the rate grows: as much as a step's samples, compared to one rank's pass.

    Adasum adapts to the number of ranks by itself (Maleki et al. 2020, arXiv:2006.02924).
    """
    passes: int = args.batches_per_allreduce
    return passes if args.adasum else passes * size


def decay(schedule: str, share: float) -> float:
    """Return the factor for the rate after `share` of the training; see `options.SCHEDULES`."""
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return 0.1 ** sum(share >= place for place in STEPS) if schedule == "step" else 1.0
