"""A remedy is the command that was typed, with other options."""

from __future__ import annotations

import pytest

from runners.cli import suggest
from runners.cli.suggest import with_options
from runners.core.model import Refusal


@pytest.mark.parametrize(
    ("options", "typed", "expected"),
    [
        (
            "--mpi pmix",
            ["launch", "--image", "a b.sif", "--mpi=pmi2", "-N", "2", "t", "--", "--mpi", "x"],
            "runner launch --mpi pmix --image 'a b.sif' -N 2 t -- --mpi x",
        ),
        (
            "--nodes 1 --ntasks 4",
            ["plan", "-N", "2", "-np", "4", "t.py"],
            "runner launch --nodes 1 --ntasks 4 t.py",
        ),
        ("--no-nv", ["launch", "--nv", "t"], "runner launch --no-nv t"),
        ("make build-gpu", ["launch", "t"], "make build-gpu"),
        (
            "--comment pytorch, leave out --mem",
            ["launch", "--mem", "4G", "-N2", "t"],
            "runner launch --comment pytorch -N2 t",
        ),
        (
            "--partition debug, leave out --qos, leave out --comment",
            ["launch", "-q", "debug", "--comment", "x", "t"],
            "runner launch --partition debug t",
        ),
        ("--mpi pmix", ["-c"], "--mpi pmix"),
        (
            "--env A=1 --bind /x",
            ["launch", "--env", "A=2", "--env=B=3", "-B", "/y", "--env=A=4", "t"],
            "runner launch --env A=1 --bind /x --env=B=3 -B /y t",
        ),
        ("leave out --bind", ["launch", "-B", "/y", "--bind=/z", "-B/x", "t"], "runner launch t"),
        ("--nodes 1", ["launch", "-N2", "-np", "4", "t"], "runner launch --nodes 1 -np 4 t"),
    ],
)
def test_with_options(options: str, typed: list[str], expected: str) -> None:
    assert with_options(options, typed) == expected


def test_one_line_mends_all_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["runner", "launch", "--mem", "4G", "t"])
    refusals = [
        Refusal("no comment", "", ("--comment pytorch",)),
        Refusal("memory", "", ("leave out --mem",)),
        Refusal("folder", "", ("cd /scratch/ada",)),
    ]
    assert suggest.remedies(refusals) == ["cd /scratch/ada && runner launch --comment pytorch t"]
    assert suggest.remedies(refusals[2:]) == ["cd /scratch/ada && runner launch --mem 4G t"]
    others = [*refusals, Refusal("image", "", ("make build-gpu",))]
    assert "make build-gpu" in suggest.remedies(others)
