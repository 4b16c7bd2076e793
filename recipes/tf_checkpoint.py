"""What checkpoints of TensorFlow trainers hold: variables, and the random states of all ranks."""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recipes import common


def seeds(model: Any) -> dict[str, Any]:
    """Return the variables that random layers draw from: Keras counts them to no weights."""
    weights = {id(v) for v in model.weights}
    return {v.path: v for v in model.variables if id(v) not in weights}


def draw_apart(args: Namespace, hvd: Any, seeds: Mapping[str, Any]) -> None:
    """Give each rank random states of its own, for dropout that differs."""
    # Horovod: the number among all ranks.
    _draw(seeds, [args.seed, hvd.rank()])


def _draw(seeds: Mapping[str, Any], numbers: Sequence[int]) -> None:
    generator = np.random.default_rng(numbers)
    for state in seeds.values():
        state.assign(generator.integers(2**31, size=tuple(state.shape)))


def of_keras_3(hvd: Any, model: Any, optimizer: Any) -> State:
    """Return what a checkpoint holds of a model and an optimiser of Keras 3."""
    same = {v.path: v for v in [*model.trainable_variables, *optimizer.variables]}
    return State(hvd, same, {v.path: v for v in model.non_trainable_weights}, seeds(model))


class State:
    """Variables by name, as a checkpoint (see saving.State).

    `same` are equal on all ranks. Each rank has its own of `moving`, the moving means of its
    batches, and of `random`, the states of its random numbers. The payload is numpy's npz; names of
    the last two begin with the rank: `0/dropout/...`.
    """

    def __init__(
        self, hvd: Any, same: dict[str, Any], moving: dict[str, Any], random: dict[str, Any]
    ) -> None:
        self.hvd, self.same, self.moving, self.random = hvd, same, moving, random
        self.own: list[dict[str, Any]] = []

    def signature(self) -> str:
        every = {**self.same, **self.moving}
        return common.signature((path, variable.shape) for path, variable in every.items())

    def gather(self) -> None:
        mine = {path: v.numpy() for path, v in {**self.moving, **self.random}.items()}
        # Horovod: each rank draws its own dropout and sees its own batches.
        self.own = self.hvd.allgather_object(mine, name="own")

    def write(self, path: Path) -> common.Sum:
        """Write everything, readable by numpy.load without pickle. Rank 0 only."""
        arrays = {path: variable.numpy() for path, variable in self.same.items()}
        for rank, own in enumerate(self.own):
            arrays |= {f"{rank}/{path}": array for path, array in own.items()}
        packed = io.BytesIO()  # numpy wants a stream that it could read too
        np.savez(packed, **arrays)
        return common.write_atomically(path, lambda stream: stream.write(packed.getbuffer()))

    def restore(self, payload: bytes) -> str:
        """Take over what was written; return what could not be, in words."""
        found = np.load(io.BytesIO(payload), allow_pickle=False)
        for path, variable in self.same.items():
            variable.assign(found[path])
        own = {**self.moving, **self.random}
        before = _ranks_in(found)
        if not own or before == self.hvd.size():
            for path, variable in own.items():
                variable.assign(found[f"{self.hvd.rank()}/{path}"])
            return ""
        for path, variable in self.moving.items():
            variable.assign(np.mean([found[f"{rank}/{path}"] for rank in range(before)], axis=0))
        drawn = [number for path in self.random for number in found[f"0/{path}"].tolist()]
        _draw(self.random, [self.hvd.rank(), *(number % 2**31 for number in drawn)])
        return f"random states are those of {before} ranks: drawn anew for {self.hvd.size()}"


def _ranks_in(found: Any) -> int:
    heads = (name.partition("/")[0] for name in found.files)
    return max((1 + int(head) for head in heads if head.isdecimal()), default=0)
