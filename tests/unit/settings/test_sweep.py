"""The runs that --array and --sweep ask for."""

from __future__ import annotations

import pytest

from runners.settings import sweep
from runners.settings.sweep import SweepRun

from .. import sentences


def numbers(array: str) -> list[int | None]:
    asked = sweep.variants(array, ())
    return [variant.task for variant in asked.variants]


@pytest.mark.parametrize(
    ("array", "tasks"),
    [("0-3", [0, 1, 2, 3]), ("7,1,5", [1, 5, 7]), ("0-9:4,4", [0, 4, 8]), ("3%1", [3])],
)
def test_arrays_in_sbatchs_form(array: str, tasks: list[int]) -> None:
    assert numbers(array) == tasks


def test_the_throttle() -> None:
    assert sweep.variants("0-9%4", ()) == ([SweepRun(task) for task in range(10)], 4)
    asked = sweep.variants("%2", ("a=1,2,3",))
    assert (len(asked.variants), asked.at_once) == (3, 2)


@pytest.mark.parametrize(
    ("array", "id"),
    [
        *((text, "array-without-numbers") for text in ("", "%2")),
        *((text, "array-malformed") for text in ("x", "3-1", "1-2:0", "1%0", "1,,2", "-1", "1 2")),
        ("0-1000000000000", "array-malformed"),
    ],
)
def test_arrays_that_are_none(array: str, id: str) -> None:
    with sentences.raises(id):
        sweep.variants(array, ())


def test_sweeps_make_all_combinations_the_last_changing_first() -> None:
    asked = sweep.variants(None, ("lr=0.1,0.01", "seed=1,2"))
    assert [variant.args for variant in asked.variants] == [
        ("--lr=0.1", "--seed=1"),
        ("--lr=0.1", "--seed=2"),
        ("--lr=0.01", "--seed=1"),
        ("--lr=0.01", "--seed=2"),
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x=a b,'q',\"d\"", ["a b", "'q'", '"d"']),
        (r"x=a\,b,c\\,\n,\\\,", ["a,b", "c\\", r"\n", "\\,"]),
        ("x=$HOME,`id`,;rm -rf /,|,&&", ["$HOME", "`id`", ";rm -rf /", "|", "&&"]),
        ("--x=-1,--,=", ["-1", "--", "="]),
        ("x=日本,a\nb,\t", ["日本", "a\nb", "\t"]),
    ],
)
def test_values_of_any_kind(text: str, values: list[str]) -> None:
    asked = sweep.variants(None, (text,))
    assert [variant.varied["x"] for variant in asked.variants] == values


@pytest.mark.parametrize(
    ("sweeps", "told"),
    [
        (("lr",), ["axis-malformed"]),
        (("=1",), ["axis-malformed"]),
        (("l r=1",), ["axis-malformed"]),
        (("lr=",), ["axis-values-malformed", "--sweep lr=1,2"]),
        (("lr=1,,2",), ["axis-values-malformed", "--sweep lr=1,2"]),
        (("lr=1,2,1",), ["axis-values-malformed", "--sweep lr=1,2"]),
        (("lr=1", "lr=2"), ["axis-named-twice"]),
        (
            ("a=" + ",".join(map(str, range(400))), "b=" + ",".join(map(str, range(400)))),
            ["too-many-runs"],
        ),
    ],
)
def test_sweeps_that_cannot_be_meant(sweeps: tuple[str, ...], told: list[str]) -> None:
    with sentences.raises(*told):
        sweep.variants(None, sweeps)
