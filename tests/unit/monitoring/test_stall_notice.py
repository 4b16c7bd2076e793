"""A quiet script is told of once its ranks, asked twice, have not moved; others never are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.core.progress import Listener
from runners.launching import run_folder
from runners.monitoring import stall_notice, stalls
from runners.monitoring.stall_notice import Stalls
from runners.schedulers import local
from tests import ras_server
from tests.unit.injob import shim

RUNNING = Status(JobState.RUNNING)
LIMIT = 60.0
SLEEPS = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"
# No line comes twice: two samples are never of the same.
MOVES = "import time\nprint('started', flush=True)\n" + "time.sleep(0.05)\n" * 2000


@contextmanager
def job(folder: Path, trainer: str) -> Iterator[tuple[JobPaths, Job]]:
    """A real shim around a trainer that has written a line, as a job of this machine."""
    paths = JobPaths(folder)
    (folder / "train.py").write_text(trainer)
    paths.log.parent.mkdir()
    paths.code.mkdir()
    run_folder.copy_injob(paths)
    command = shim.command(folder, *shim.LOCAL, trainer=("train.py",))
    with paths.log.open("wb") as log:
        running = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **shim.ALONE}, stdout=log
        )
    try:
        deadline = time.monotonic() + 20
        while b"started" not in paths.log.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        id = f"local-{running.pid}-{local.start_time(running.pid)}"
        yield paths, Job(id, "train", SchedulerName.LOCAL, str(paths.log), time.time())
    finally:
        running.kill()
        running.wait()


def news(watch: Stalls, looks: int) -> list[str]:
    """What a follower says in so many looks at a log without a new line since long, and not soon.

    The clock is put on: by what the looks and samples wait for.
    """
    said = []
    for _ in range(looks):
        os.utime(watch.paths.log, (0, time.time() - LIMIT - 1))
        watch.looked = watch.due = 0.0
        said.append(watch.news(RUNNING))
    return [text for text in said if text]


STOPS = """
import os, signal
print("started", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
NCCL = "import ras_server\nras_server.serve()\n"


def test_a_script_that_hangs_is_told_once_with_nccls_answer_and_that_it_goes_on(
    tmp_path: Path,
) -> None:
    shutil.copy(ras_server.__file__, tmp_path)
    with job(tmp_path, NCCL + SLEEPS) as (paths, record):
        watch = Stalls(paths, record, LIMIT)
        (text,) = news(watch, 3)
        with paths.log.open("ab") as log:
            log.write(b"0@n1 | epoch 2\n")
        assert news(watch, 1) == ["it goes on"]
    assert text.startswith("no new line for ")
    assert re.search(r"^ +0 +\S+ +sleeps +train.py +5 +time.sleep\(600\)$", text, re.MULTILINE)
    assert text.endswith("\nNCCL's RAS: Rank 1 has launched up to operation 41")
    assert stall_notice.last_known(paths, record) is None, "it went on"
    os.truncate(paths.log, paths.log.stat().st_size - len(b"0@n1 | epoch 2\n"))
    known = stall_notice.last_known(paths, record)
    assert known is not None
    assert text.splitlines() == [stalls.in_words(known), *stalls.table(known)]
    record_of_it = paths.stacks / stall_notice.FILE
    hostile = json.dumps({**json.loads(record_of_it.read_text()), "seconds": "x"})
    for damaged in ("{}", "[1]", '{"form": 2}', '{"form": 1, "rows": [{"late": 1}]}', hostile):
        record_of_it.write_text(damaged)
        assert stall_notice.last_known(paths, record) is None
    stack, answer = paths.stacks / "rank-0.txt", paths.stacks / "nccl-ras.txt"
    _, file, line = stack.read_text().splitlines()
    assert file.endswith('train.py", line 5, in <module>')
    assert line == "    time.sleep(600)"
    assert ras_server.BEHIND in answer.read_text()
    modes = [path.stat().st_mode for path in (paths.stacks, stack, answer)]
    assert not any(mode & 0o077 for mode in modes)


def test_nothing_is_told_or_waited_for_where_nccl_does_not_listen_or_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = stall_notice._asked

    def seen(paths: JobPaths, job: Job, *words: str, host: str = "") -> str:
        asked.append(words[0])
        return ask(paths, job, *words, host=host)

    monkeypatch.setattr(stall_notice, "_asked", seen)
    for name, trainer in (("silent", SLEEPS), ("stopped", NCCL + STOPS)):
        (tmp_path / name).mkdir()
        shutil.copy(ras_server.__file__, tmp_path / name)
        with job(tmp_path / name, trainer) as (paths, record):
            (text,) = news(Stalls(paths, record, LIMIT), 2)
        assert "NCCL" not in text
        assert {path.name for path in paths.stacks.iterdir()} == {"rank-0.txt", "stall.json"}
    assert {*asked} == {"sample"}


def test_a_quiet_script_whose_stack_changes_is_not_told(tmp_path: Path) -> None:
    with job(tmp_path, MOVES) as (paths, record):
        watch = Stalls(paths, record, LIMIT)
        assert news(watch, 2) == []
        assert watch.due > 0, "it was not even asked"


def test_who_asks_waits_for_the_second_sample_only_where_the_job_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        os.utime(paths.log, (0, time.time() - 90))

    clock = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=wait)
    monkeypatch.setattr(stall_notice, "time", clock)
    with job(tmp_path, SLEEPS) as (paths, record):
        assert stall_notice.asked(paths, record, Listener()) is None
        assert waits == []
        os.utime(paths.log, (0, time.time() - 40))
        watch = stall_notice.asked(paths, record, Listener())
        assert waits == [stall_notice.SECONDS_BETWEEN_SAMPLES]
        assert watch is None, "the samples were not far enough apart"
