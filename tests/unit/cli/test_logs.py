"""`runner logs` of a run that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runners.cli.runs.logs import logs_command
from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName

TEXT = "srun: a word of nobody's\n0@n1 | hello\n1@n2 | world\nno end of line"


@pytest.fixture
def run(tmp_path: Path) -> JobPaths:
    paths = JobPaths(tmp_path / "t-1")
    paths.log.parent.mkdir(parents=True)
    paths.log.write_text(TEXT)
    Job("42", "t", SchedulerName.SLURM, str(paths.log), 1.0, "COMPLETED").save(paths)
    return paths


def logs(run: JobPaths, *words: str) -> Result:
    return CliRunner().invoke(logs_command, [*words, str(run.root)])


def test_the_lines_of_a_rank_and_of_nobody(run: JobPaths) -> None:
    shown = logs(run, "--rank", "1")
    assert shown.stdout.splitlines() == [
        "srun: a word of nobody's", "1@n2 | world", "no end of line",
    ]  # fmt: skip
    assert shown.stderr == ""


def test_a_rank_that_wrote_nothing_is_told(run: JobPaths) -> None:
    shown = logs(run, "--rank", "7", "--rank", "9")
    assert shown.exit_code == 0
    assert shown.stderr == "runner: rank 7, 9 wrote nothing; --all shows what others wrote\n"


@pytest.mark.parametrize("words", [("--all",), ("--tail", "1"), ()])
def test_nothing_is_said_of_ranks_that_wrote_or_may_have(
    run: JobPaths, words: tuple[str, ...]
) -> None:
    assert logs(run, *words).stderr == ""
