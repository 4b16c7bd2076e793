"""Which rank learns from which samples, and how fast."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recipes.distributed import Batch, Shards, UserError, check, learning_rate, threads

from .. import sentences
from .one_rank import one_rank

WORLDS = [(1797, 1), (1797, 2), (1797, 4), (10, 3), (10, 7), (5, 5), (64, 64)]


def ranks(count: int, size: int, batch_size: int, passes: int = 1) -> list[list[Batch]]:
    """Return the batches of each rank in the first epoch."""
    return [
        list(Shards(count, rank, size, 1, batch_size, passes).batches(epoch=1))
        for rank in range(size)
    ]


def in_step(batches: list[list[Batch]], step: int) -> list[int]:
    """Return the samples of all ranks in one step, sorted."""
    parts = [part for rank in batches for part in rank[step].parts]
    return sorted(np.concatenate(parts).tolist())


@pytest.mark.parametrize(("count", "size"), WORLDS)
def test_every_sample_is_seen_exactly_once_in_equally_many_steps(count: int, size: int) -> None:
    found = ranks(count, size, batch_size=3)
    assert len({len(batches) for batches in found}) == 1
    seen = [sample for step in range(len(found[0])) for sample in in_step(found, step)]
    assert sorted(seen) == list(range(count))


@pytest.mark.parametrize(("size", "batch_size", "passes"), [(2, 6, 1), (4, 3, 1), (2, 3, 2)])
def test_many_ranks_see_in_each_step_what_one_with_their_batches_together_sees(
    size: int, batch_size: int, passes: int
) -> None:
    alone, many = ranks(31, 1, batch_size=12), ranks(31, size, batch_size, passes)
    assert len(alone[0]) == len(many[0]) == 3
    for step in range(3):
        assert in_step(many, step) == in_step(alone, step)


def test_weights_make_the_mean_over_ranks_the_mean_over_samples() -> None:
    """The last step has 7 samples for 4 ranks."""
    last = [batches[-1] for batches in ranks(31, 4, batch_size=3)]
    assert sorted(batch.own for batch in last) == [1, 2, 2, 2]
    losses = np.random.default_rng(0).random(31)
    sums = [sum(losses[part].sum() for part in batch.parts) * batch.weight for batch in last]
    seen = np.concatenate([part for batch in last for part in batch.parts])
    assert sum(sums) / 4 == pytest.approx(losses[seen].mean())


def test_a_rank_without_samples_still_takes_part() -> None:
    last = [batches[-1] for batches in ranks(9, 4, batch_size=2)]
    assert [batch.own for batch in last] == [1, 0, 0, 0]
    assert [len(batch.parts) for batch in last] == [1, 1, 1, 1]


def test_another_epoch_has_another_order_and_the_same_again() -> None:
    shards = Shards(100, 0, 2, 1, 50)
    first, second, again = (next(shards.batches(epoch)).parts[0] for epoch in (1, 2, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, again)


def test_after_a_restart_with_other_ranks_the_rest_is_still_seen_once() -> None:
    before = Shards(100, 0, 1, 1, 30)
    done = next(before.batches(1))
    rest = [list(Shards(100, r, 4, 1, 8).batches(1, done.taken)) for r in range(4)]
    seen = [*done.parts[0], *(s for r in rest for batch in r for s in batch.parts[0])]
    assert sorted(seen) == list(range(100))


def test_a_short_last_step_can_be_left_out() -> None:
    shards = Shards(25, 0, 2, 1, 5, drop_last=True)
    assert [batch.total for batch in shards.batches(1)] == [10, 10]
    assert (shards.steps(), shards.whole) == (2, 20)
    with sentences.refuses(UserError):
        Shards(7, 0, 2, 1, 5, drop_last=True).check()


def test_fewer_samples_than_ranks_are_refused() -> None:
    with sentences.refuses(UserError):
        Shards(3, 0, 4, 1, 2).check()


def test_steps_left_from_the_middle_of_an_epoch() -> None:
    shards = Shards(100, 0, 2, 1, 15)
    assert (shards.steps(), shards.steps(taken=60), shards.steps(taken=100)) == (4, 2, 0)


# The learning rate


def asked(**changed: object) -> Namespace:
    defaults = {"base_lr": 0.1, "warmup_epochs": 3, "batches_per_allreduce": 1, "adasum": False}
    return Namespace(**{**defaults, **changed})


@pytest.mark.parametrize(
    ("changed", "size", "progress", "expected"),
    [
        *[
            ({}, 4, progress, rate)
            for progress, rate in ((0, 0.1), (1, 0.2), (1.5, 0.25), (3, 0.4))
        ],
        ({}, 4, 50, 0.4),
        ({}, 1, 0, 0.1),
        ({"warmup_epochs": 0}, 4, 0, 0.4),
        ({"batches_per_allreduce": 3, "base_lr": 1.0}, 4, 9, 12),
        ({"batches_per_allreduce": 3, "base_lr": 1.0, "adasum": True}, 4, 9, 3),
    ],
)
def test_rate_grows_to_that_of_all_ranks_and_passes_but_not_of_adasums(
    changed: dict[str, Any], size: int, progress: float, expected: float
) -> None:
    assert learning_rate(asked(**changed), size, progress) == pytest.approx(expected)


def test_rate_of_adam_grows_with_the_square_root() -> None:
    assert learning_rate(asked(), 4, 9, power=0.5) == pytest.approx(0.2)
    assert learning_rate(asked(), 4, 0, power=0.5) == pytest.approx(0.1)


# Placement


@pytest.mark.parametrize(
    ("said", "mine", "machine", "expected"),
    [
        ("3", 8, 8, 3),  # what the user or the launcher says
        ("4,2", 8, 8, 4),  # nested parallelism: the outer level
        ("", 8, 8, 4),  # nobody bound the ranks: two of them share
        ("0", 8, 8, 4),
        ("", 4, 8, 4),  # bound to four
        ("", 1, 1, 1),
    ],
)
def test_threads(
    monkeypatch: pytest.MonkeyPatch, said: str, mine: int, machine: int, expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(mine)))
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    assert threads(local_size=2) == expected


# Adasum, where Horovod would break off


@pytest.mark.parametrize(
    ("size", "controller", "refused"),
    [
        *[(size, "mpi", False) for size in (1, 2, 4, 16)],
        *[(size, "mpi", True) for size in (3, 6, 12)],
        (2, "gloo", True),
    ],
)
def test_adasum_takes_powers_of_two_with_mpi(size: int, controller: str, refused: bool) -> None:
    ranks = replace(one_rank(size=size), controller=controller)
    check(asked(), ranks)
    with sentences.refuses(UserError) if refused else nullcontext():
        check(asked(adasum=True), ranks)
