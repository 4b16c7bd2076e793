"""`runner doctor` as it is typed, on a machine with nothing on its PATH."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runners.cli.machine import doctor
from runners.cli.machine.doctor import doctor_command
from runners.core import diagnosis
from runners.core.command_line import CommandLine, Given
from runners.core.errors import NotFound, UsageError
from runners.core.remedy import change, command
from runners.doctor.finding import FAILURE, About


@pytest.fixture(autouse=True)
def empty_machine(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a home and a PATH in which there is nothing."""
    monkeypatch.setenv("PATH", str(here))


def run(*words: str) -> Any:
    """Run the command; errors come out as they are."""
    return CliRunner().invoke(doctor_command, words, catch_exceptions=True)


def test_a_machine_with_nothing_fails_in_good_order() -> None:
    done = run("--json")
    assert done.exit_code == 80
    report = json.loads(done.stdout)
    assert (report["version"], report["failed"]) == (diagnosis.VERSION, True)
    assert sum(report["counts"].values()) == len(report["diagnoses"])
    subjects = dict.fromkeys(item["subject"] for item in report["diagnoses"])
    assert list(subjects) == ["containers", "scheduler", "GPU", "network", "disk", "environment"]
    assert {"containers-runtime", "scheduler-scheduler"} <= {
        item["id"] for item in report["diagnoses"]
    }
    assert all(item["remedies"] for item in report["diagnoses"] if item["severity"] == FAILURE)


def test_an_image_that_is_not_there_is_a_finding() -> None:
    done = run("--image", "no.sif", "--json")
    (found,) = [item for item in json.loads(done.stdout)["diagnoses"] if item["subject"] == "image"]
    assert (found["severity"], done.exit_code) == (FAILURE, 80)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--job"], UsageError),
        (["--job", "--run", "doctor-1"], UsageError),
        (["--run", "doctor-1"], NotFound),
    ],
)
def test_what_makes_no_sense(words: list[str], error: type[Exception]) -> None:
    assert isinstance(run(*words).exception, error)


def test_words_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    fixes = (command("make", "x"), change(mpi="pmix"))
    doctor.show(
        [
            About("disk").failure("runs", "no space", "a\nb", fixes),
            About("disk").ok("scratch", "12 GB free [bold]"),
            About("GPU").warning("driver", "too old"),
        ],
        CommandLine("doctor", (Given("mpi", "none"), Given("image", "a b.sif"))),
    )
    assert (
        capsys.readouterr().out
        == """\
disk
  ok       scratch: 12 GB free [bold]
  failure  runs: no space
           a
           b
           try: make x
           try: runner doctor --mpi pmix --image 'a b.sif'
GPU
  warning  driver: too old
1 ok, 1 warning, 1 failure
"""
    )


@pytest.mark.parametrize("verbose", [False, True])
def test_what_is_well_takes_one_line(capsys: pytest.CaptureFixture[str], verbose: bool) -> None:
    found = [
        About("disk").ok("runs", "12 GB free", "df: a\nb"),
        About("x").warning("y", "z", "e"),
    ]
    doctor.show(found, CommandLine("doctor"), verbose)
    shown = capsys.readouterr().out
    assert ("df: a" in shown) is verbose
    assert "           e\n" in shown
