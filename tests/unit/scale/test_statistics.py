"""Intervals and times of a study. Expected numbers are scipy's, unless they are plain."""

from __future__ import annotations

import pytest

from runners.scale import confidence
from runners.scale.summary import comparisons, summaries

from .scaled import run


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.7062),
        (1.5, 6.0167),
        (2, 4.3027),
        (20, 2.0860),
        (21, 2.0796),
        (60, 2.0003),
        (1000, 1.9623),
    ],
)
def test_students_quantile(freedom: float, expected: float) -> None:
    assert confidence.quantile(freedom) == pytest.approx(expected, abs=1e-4)


def test_a_mean_has_the_interval_of_its_logarithms() -> None:
    found = confidence.mean([100, 104, 98])
    assert (found.value, found.low, found.high) == pytest.approx(
        (100.636, 93.359, 108.480), rel=1e-5
    )
    assert found.n == 3


def test_a_ratio_has_welchs_interval() -> None:
    found = confidence.ratio([100, 104, 98], [50, 53, 51, 52])
    assert (found.value, found.low, found.high) == pytest.approx(
        (1.95456, 1.84033, 2.07588), rel=1e-5
    )


def test_fewer_than_three_runs_have_no_interval() -> None:
    """Two differ by chance alone: their interval would be such as 1.76 to 55,792,432."""
    assert confidence.mean([5.0, 9.0]).low is None
    assert confidence.ratio([5.0, 5.1, 5.2], [4.0, 4.1]).low is None
    alone = confidence.mean([5.0])
    assert (alone.low, alone.high, alone.n) == (None, None, 1)
    assert alone.value == pytest.approx(5)
    assert confidence.ratio([5.0], [4.0, 4.1]).low is None


def test_equal_runs_have_an_interval_of_nothing() -> None:
    found = confidence.ratio([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))


def test_speed_up_and_efficiency() -> None:
    points = summaries([run(n, rate, r) for n, rate in ((2, 200), (8, 640)) for r in (1, 2)])
    base, top = points
    assert base.base
    assert base.efficiency.value == 1
    assert top.speed_up.value == pytest.approx(3.2)
    assert top.efficiency.value == pytest.approx(0.8)
    assert not top.base


def test_variants_are_compared_where_both_were_measured() -> None:
    runs = [run(1, 100 + r, r, "gloo") for r in (1, 2, 3)]
    runs += [run(n, 150 + r, r, "mpi") for n in (1, 2) for r in (1, 2, 3)]
    (found,) = comparisons(summaries(runs))
    assert (found.variant, found.to, found.ranks) == ("mpi", "gloo", 1)
    assert found.ratio.value == pytest.approx(1.49, abs=0.01)
    assert found.sure
