"""The log of 1,024 ranks, filtered and explained without holding it in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName

from ..failures import leave, words

# Long lines: the log has to be larger than the memory, and each line costs time.
RANKS, ROUNDS, LINE = 1024, 40, 300
CULPRIT = 777
MEBIBYTES = 36  # Python with click has 25 of its own; the log below has 12 and more
PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print(code, peak, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> JobPaths:
    """A run of 128 nodes with 8 ranks each, of which one failed and all others followed."""
    paths = JobPaths(tmp_path_factory.mktemp("runs") / "wide-1")
    paths.log.parent.mkdir(parents=True)
    host = [f"nid{rank // 8:06}" for rank in range(RANKS)]
    with paths.log.open("w") as log:
        for step in range(ROUNDS):
            text = f"step {step} " + "x" * LINE
            log.writelines(f"{rank}@{host[rank]} | {text}\n" for rank in range(RANKS))
        log.write(f"{CULPRIT}@{host[CULPRIT]} | Traceback (most recent call last):\n")
        log.write(f"{CULPRIT}@{host[CULPRIT]} | KeyError: 'label'\n")
    paths.failures.mkdir()
    for rank in range(RANKS):
        ours = rank == CULPRIT
        error = "KeyError: 'label'" if ours else "HorovodInternalError: a peer is gone"
        time = 10.5 if ours else 10.0 + rank / RANKS
        leave(paths, rank, time, words(error), host=host[rank], size=RANKS)
    Job("42", "wide", SchedulerName.SLURM, str(paths.log), 1.0, "FAILED").save(paths)
    paths.exit.write_text('{"exit_code": 1, "time": 11}\n')
    return paths


def shown(run: JobPaths, *words: str) -> tuple[str, int, int]:
    """Return what `runner` printed, its exit code, and its largest memory in MiB."""
    argv = [sys.executable, "-c", PEAK, sys.executable, "-m", "runners", *words, str(run.root)]
    place = Path(__file__).parents[3]
    env = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=place, env=env, check=True)
    code, peak = done.stderr.splitlines()[-1].split()
    return done.stdout, int(code), int(peak)


def test_one_rank_of_1024(run: JobPaths) -> None:
    text, code, peak = shown(run, "logs", "--rank", str(CULPRIT))
    lines = text.splitlines()
    assert code == 0
    assert len(lines) == ROUNDS + 2
    assert all(line.startswith("777@nid000097 | ") for line in lines)
    assert peak < MEBIBYTES, peak


def test_the_culprit_of_1024_ranks_that_all_failed(run: JobPaths) -> None:
    text, _, peak = shown(run, "explain")
    assert "777@nid000097" in text
    assert "KeyError" in text
    assert peak < MEBIBYTES, peak


def test_all_ranks_merged(run: JobPaths) -> None:
    text, code, peak = shown(run, "logs", "--all")
    assert code == 0
    assert text.count("\n") == RANKS * ROUNDS + 2
    assert peak < MEBIBYTES, peak
