"""What a study warns of, each caused by runs that are so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.scale import cautions
from runners.scale.measure import Measured
from runners.scale.summary import summaries

from .scaled import run

LONG: dict[str, Any] = {"epoch_seconds": 10.0}


def told(runs: Sequence[Measured], repeats: int = 3) -> dict[str, str]:
    """Return the warnings by id."""
    return {caution.id: caution.what for caution in cautions.cautions(summaries(runs), repeats)}


def good(ranks: int, rate: float, **more: Any) -> list[Measured]:
    return [run(ranks, rate * f, r, **{**LONG, **more}) for r, f in enumerate((0.99, 1, 1.01), 1)]


def test_good_runs_raise_no_doubt() -> None:
    assert told([*good(1, 100), *good(2, 190)]) == {}


def test_more_than_105_percent_is_a_cold_baseline() -> None:
    text = told([*good(1, 100), *good(2, 240)])["too-good"]
    assert "2 nodes, 2 ranks: efficiency 120 %" in text
    assert "too-good" not in told([*good(1, 100), *good(2, 209)])


def test_noisy_runs_and_epochs() -> None:
    noisy = [run(1, rate, r, **LONG) for r, rate in enumerate((100, 130, 80), 1)]
    assert "1 node, 1 rank: the runs differ by 24 %" in told(noisy)["noisy-runs"]
    restless = good(1, 100, rates=(100, 150, 70))
    assert "the epochs of a run differ by 38 %" in told(restless)["noisy-epochs"]


def test_hosts_of_unequal_speed_are_named() -> None:
    rates = [("n1", 100), ("n7", 130), ("n1", 101)]
    runs = [run(1, rate, r, hosts=(host,), **LONG) for r, (host, rate) in enumerate(rates, 1)]
    assert "n7 is 29 % faster than n1" in told(runs)["unequal-hosts"]
    mixed = [*good(1, 100)[:2], run(1, 100, 3, threads=4, **LONG)]
    assert "numbers of threads" in told(mixed)["unequal-devices"]


def test_lost_accuracy_is_told() -> None:
    text = told([*good(1, 100), *good(2, 190, accuracy=0.8)])["accuracy"]
    assert "accuracy 0.800, 0.170 below that of 1 rank" in text


def test_other_software_within_a_variant() -> None:
    runs = good(1, 100)
    runs[1] = run(1, 100, 2, versions={"torch": "2.10.0"}, **LONG)
    assert "not all with the same torch" in told(runs)["software"]


def test_resumed_missing_few_short_and_large_baselines() -> None:
    found = told([*good(4, 100, resumed=True)[:2], *good(8, 190)])
    assert "4n--r1, 4n--r2" in found["resumed"]
    assert "2 runs of 3 measured" in found["missing"]
    assert "has 4 ranks" in found["baseline"]
    assert "too few for intervals" in told(good(1, 100)[:2], repeats=2)["few-runs"]
    assert "no intervals" in told(good(1, 100)[:1], repeats=1)["one-run"]
    assert "less than 10 s" in told(good(1, 100, epoch_seconds=0.1))["short"]
