"""Deals the training samples to the ranks, as the options of a trainer say."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .errors import UserError
from .shards import Shards


def deal(args: Namespace, hvd: Any, count: int, *, drop_last: bool = False) -> Shards:
    """Return this rank's shards of `count` samples, by its number among all ranks.

    Raises `UserError` when there are fewer samples than ranks.
    """
    return Shards(
        count, hvd.rank(), hvd.size(), args.seed, batch_size=args.batch_size,
        passes=args.batches_per_allreduce, drop_last=drop_last,
    )  # fmt: skip


def deal_whole_steps(args: Namespace, hvd: Any, count: int, what: str = "samples") -> Shards:
    """Return shards without a short last step; raise `UserError` for too few samples."""
    shards = deal(args, hvd, count, drop_last=True)
    if count < shards.per_step:
        raise UserError(
            f"{count} training {what} are fewer than one step of all ranks takes "
            f"({shards.per_step}): give a smaller --batch-size"
        )
    return shards
