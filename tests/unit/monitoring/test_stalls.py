"""Stalls: no progress for too long, and the ranks that differ from those that wait for them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.injob import sample_ranks
from runners.jobs import metrics_tail
from runners.jobs.metrics_tail import Reading
from runners.monitoring import rank_samples, stall_notice, stalls
from runners.monitoring.rank_samples import RankSample
from runners.monitoring.stall_notice import Stalls
from tests import ras_server

from ..injob import shim as real_shim

READING = Reading(step=120, time=1000.0)
LAST = stalls.LastProgress(120, 0, 1000.0)
WAITS = RankSample(0, "n1", "S", 0.05, 900)
SHORT = (
    "at this pace the training needs 1:05:20 more, and its limit comes in 1:00: a longer --time, "
    "or --requeue, which resumes from checkpoints"
)
INSPECTOR = """\
0@n1 | [2026-11-21 20:00:00.1: W /horovod/common/stall_inspector.cc:107] One or more tensors were \
submitted to be reduced and are waiting for remainder of ranks for more than 60 seconds. This may
0@n1 | Missing ranks:
0@n1 | 1: [DistributedOptimizer.gradient.0, loss]
0@n1 | 3: [loss]
"""


def test_progress_is_the_last_step_or_the_last_line_that_is_no_word_of_a_stall() -> None:
    assert stalls.progress(READING, [], 9, 2000.0) == stalls.LastProgress(120, 0, 1000.0)
    epoch = b"0@n1 | epoch 1\n"
    assert stalls.progress(None, [epoch], len(epoch), 2000.0).line == len(epoch)
    said = INSPECTOR.encode()
    tail = [epoch, *(said + said).splitlines(keepends=True)]
    quiet = stalls.progress(None, tail, len(b"".join(tail)), 2000.0)
    assert quiet == stalls.LastProgress(None, len(epoch), 2000.0 - 2 * 60)


def test_a_stall_is_told_with_what_the_ranks_do() -> None:
    told = stalls.in_words(stalls.of_ranks(303.0, LAST, [], []))
    assert told == "no step for 5 min 3 s (the last one: 120): its nodes did not answer"
    told = stalls.in_words(stalls.of_ranks(303.0, LAST, [], [WAITS, WAITS]))
    assert told == "no step for 5 min 3 s (the last one: 120): no rank differs from the others"
    told = stalls.in_words(stalls.of_ranks(42.0, replace(LAST, step=None), [], []))
    assert told.startswith("no new line for 42 s: ")


def test_below_it_is_a_table_with_the_late_ranks_marked_and_first() -> None:
    stack = (rank_samples.StackFrame("/app/train.py", 8, "f"),)
    hangs = RankSample(1, "node2", "S", 0.0, 0, stacks=(stack,), source={"/app/train.py:8": "g()"})
    waits = replace(hangs, rank=0, host="n1", source={"/app/train.py:8": "dist.barrier()\x1b[2J"})
    assert stalls.table(stalls.of_ranks(400.0, LAST, [], [waits, hangs])) == [
        "   rank  host   state   file      line  call",
        ">  1     node2  sleeps  train.py  8     g()",
        "   0     n1     waits   train.py  8     dist.barrier()\\x1b[2J",
    ]


def test_a_table_has_an_end() -> None:
    places = [(rank_samples.StackFrame("/train.py", line, "f"),) for line in range(20)]
    samples = [RankSample(n, "n1", "S", 0, 0, stacks=(stack,)) for n, stack in enumerate(places)]
    *_, last = stalls.table(stalls.of_ranks(400.0, LAST, [], samples))
    assert last == "and 12 more places: the run's folder stacks"


@pytest.mark.parametrize(
    ("sample", "state"),
    [
        (RankSample(1, "n2", "T", 0.0, 0), "stopped"),
        (RankSample(1, "n2", "D", 0.0, 0), "waits for a disk"),
        (RankSample(1, "n2", "R", 0.97, 2), "runs"),
        (RankSample(1, "n2", "S", 0.0, 0), "sleeps"),
    ],
)
def test_without_stacks_the_rank_that_does_something_else_lags(
    sample: RankSample, state: str
) -> None:
    stall = stalls.of_ranks(400.0, LAST, [], [WAITS, sample])
    assert stall.who == "rank 1@n2 did not come to where the others wait"
    assert (stall.rows[0].late, stall.rows[0].ranks, stall.rows[0].state) == (True, "1", state)


def test_a_stall_is_read_back_as_it_was_written() -> None:
    stopped = RankSample(1, "n2", "T", 0.0, 0)
    stall = stalls.of_ranks(400.0, LAST, INSPECTOR.splitlines(), [WAITS, stopped], MISSING)
    value = {**vars(stall), "rows": [row._asdict() for row in stall.rows]}
    assert stalls.read(json.loads(json.dumps(value))) == stall


@pytest.mark.parametrize(
    ("log", "moved"),
    [
        ("", False),
        (INSPECTOR, False),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026 ***\n0@n1 | Terminated\n", False),
        ("0@n1 | [rank0]:[E] Watchdog caught collective operation timeout\n0@n1 | more\n", False),
        (
            "0@n1 | W1128 api.py:739] Received 15 death signal, shutting down workers\n0@n1 | x\n",
            False,
        ),
        (
            "1@n2 | [W1129 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=5)\n"
            "1@n2 | W1129 dynamic_rendezvous.py:1341] The node 'n2' has failed to shutdown\n",
            False,
        ),
        ("0@n1 | epoch 2\nslurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026 ***\n", True),
    ],
)
def test_ranks_that_wrote_more_went_on(log: str, moved: bool) -> None:
    assert stalls.went_on(stalls.Stall(60.0, None, ""), log.encode()) is moved


@pytest.mark.parametrize(
    ("step", "left", "needed"),
    [
        (20, 60.0, 3920.0),  # 80 s for 20 steps, and 980 are left
        (20, 3900.0, None),  # within what the pace of a few steps can tell
        (5, 60.0, None),
        (20, None, None),
    ],
)
def test_a_limit_that_comes_before_the_end_is_seen(
    step: int, left: float | None, needed: float | None
) -> None:
    first, latest = Reading(0, 1000.0, 1000), Reading(step, 1000.0 + 4 * step, 1000)
    assert stalls.short_of_time(first, latest, left) == needed


def test_that_it_comes_is_said_once_and_not_of_a_job_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_notice, "SECONDS_BETWEEN_LOOKS", 0.0)
    paths = JobPaths(tmp_path)
    job = Job("1", "t", SchedulerName.SLURM, str(paths.log), 1.0, "")
    running = Status(JobState.RUNNING, left=60.0)
    for restarts, said in ((0, ["", SHORT, ""]), (3, ["", "", ""])):
        notices, news = Stalls(paths, replace(job, requeue_limit=restarts), 300), []
        for step in (0, 20, 40):
            reading = Reading(step, 1000.0 + 4 * step, 1000)
            monkeypatch.setattr(metrics_tail, "last", lambda paths, reading=reading: reading)
            news.append(notices.news(running))
        assert news == said


def test_ranks_that_all_wait_alike_are_not_blamed() -> None:
    assert rank_samples.late([WAITS, RankSample(1, "n2", "S", 0.05, 880)]) == []


def test_what_horovod_says_of_missing_ranks_is_read() -> None:
    lines = [*INSPECTOR.splitlines(), "0@n1 |   step 10/100  epoch 1"]
    assert stalls.missing(lines) == [1, 3]
    assert stalls.missing(lines[:1]) == []
    stopped = RankSample(1, "n2", "T", 0.0, 0)
    told = stalls.in_words(stalls.of_ranks(400.0, LAST, lines, [WAITS, stopped]))
    assert told.endswith(": rank 1@n2 did not come to where the others wait; Horovod misses rank 3")


MISSING = """
Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 9 on node 10.0.0.2 managing GPU 0

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 0 managed by process 9 on node 10.0.0.2

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

"""
LATE = "Communicator ranks have different AllReduce operation counts"


@pytest.mark.parametrize(("answer", "told"), [
        ("", []),
        ("Communicators...", []),
        ("\nErrors\n======\n\nWarnings\n========\n\n", ["no rank is missing or behind"]),
        (MISSING, ["Missing communicator data from 1 job process",
                   "Missing communicator data from 1 rank", "Rank 1"]),
        (ras_server.BEHIND, [LATE, "Rank 0 has launched up to operation 42",
                             "Rank 1 has launched up to operation 41"]),
        (MISSING + "".join(f"  Rank {rank}\n" for rank in range(100)),
         ["Missing communicator data from 1 job process",
          "Missing communicator data from 1 rank", "Rank 1", "Rank 0", "Rank 2", "Rank 3",
          "Rank 4", "Rank 5", "94 more lines in nccl-ras.txt"]),
    ])  # fmt: skip
def test_what_nccl_knows_of_the_ranks_is_told(answer: str, told: list[str]) -> None:
    stall = stalls.of_ranks(400.0, LAST, [], [WAITS], answer)
    assert stalls.table(stall)[2:] == [f"NCCL's RAS: {line}" for line in told]


def test_lines_of_the_nodes_are_read_and_others_passed_over() -> None:
    line = (
        '{"rank": 1, "host": "n2", "state": "S", "busy": 0.5, "wakes": 3, "steps": 9, "stacks": '
        '[[{"file": "/a.py", "line": 8, "name": "f"}]], "source": {"/a.py:8": "sleep()"}}'
    )
    stack = (rank_samples.StackFrame("/a.py", 8, "f"),)
    one = RankSample(1, "n2", "S", 0.5, 3, 9, (stack,), {"/a.py:8": "sleep()"})
    other = line.replace('"rank": 1', '"rank": 0')
    text = f"""
srun: lua: hello
sample n2-7 {line[:50]}
sample n1-7 {other[:90]}
sample n2-7 {line[50:]}
sample n1-7 {other[90:]}
sample n3-7 {line[:50]}
"""
    assert rank_samples.parse(text) == [replace(one, rank=0), one]


@contextlib.contextmanager
def shim(folder: Path, trainer: str) -> Iterator[int]:
    """The process of a real shim's trainer, once it has made a file `started`."""
    (folder / "train.py").write_text(trainer)
    command = real_shim.command(folder, *real_shim.LOCAL, trainer=("train.py",))
    running = subprocess.Popen(command, cwd=folder, env={**os.environ, **real_shim.ALONE})
    try:
        deadline = time.monotonic() + 20
        while not (folder / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield int(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text())
    finally:
        running.kill()
        running.wait()


def sample(folder: Path) -> list[RankSample]:
    """As the job's `injob sample`, within half its time."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sample_ranks, "SECONDS", sample_ranks.SECONDS / 2)
        sample_ranks.main([str(folder)])
    return rank_samples.parse(printed.getvalue())


def wait_until_stopped(pid: int) -> None:
    """Wait until no thread of the process runs any more, which a signal does a little later."""
    deadline = time.monotonic() + 20
    while any(
        stat.read_text().rpartition(") ")[2][0] != "T"
        for stat in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_tells_what_its_ranks_do(tmp_path: Path) -> None:
    """One that sleeps, with a child of its own; then one that is stopped cannot answer."""
    trainer = """
import os, time
to_read, to_write = os.pipe()
if os.fork() == 0:
    os.close(to_write)
    os._exit(len(os.read(to_read, 1)))  # when its parent has ended
open('started', 'w').close()
time.sleep(60)
"""
    with shim(tmp_path, trainer) as pid:
        (seen,) = sample(tmp_path)
        assert (seen.rank, seen.place) == (0, ("train.py", "8", "time.sleep(60)"))
        os.kill(pid, signal.SIGSTOP)
        wait_until_stopped(pid)
        (seen,) = sample(tmp_path)
        assert (seen.rank, seen.state, seen.wakes, seen.stacks) == (0, "T", 0, ())


def test_a_loop_that_holds_the_interpreter_answers_too(tmp_path: Path) -> None:
    trainer = "open('started', 'w').close()\nwhile True:\n    pass\n"
    with shim(tmp_path, trainer):
        before, after = sample(tmp_path), sample(tmp_path)
    assert after[0].own.line in (2, 3)
    assert rank_samples.stand_still(before, after)


def test_steps_of_pytorchs_optimizers_are_counted(tmp_path: Path) -> None:
    """With a stand-in for the module, which is what is hooked: its post hook is called."""
    (tmp_path / "torch" / "optim").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/optim/__init__.py").touch()
    (tmp_path / "torch/optim/optimizer.py").write_text(
        "hooks = []\nregister_optimizer_step_post_hook = hooks.append\n"
    )
    trainer = (
        "import time\nfrom torch.optim import optimizer\n"
        "for step in range(300):\n    optimizer.hooks[0](None, (), {})\n"
        "open('started', 'w').close()\ntime.sleep(60)\n"
    )
    with shim(tmp_path, trainer):
        assert [rank.steps for rank in sample(tmp_path)] == [300]


def test_a_file_that_took_the_place_of_the_memory_is_not_written(tmp_path: Path) -> None:
    """As where a program closes all that it has not opened itself, and PyTorch's count is left."""
    trainer = """
import os, time
for name in os.listdir("/proc/self/fd"):
    if "runner-stack" in os.path.realpath(f"/proc/self/fd/{name}"):
        kept = os.dup(int(name))
        os.dup2(os.open("data", os.O_CREAT | os.O_RDWR), int(name))
        break
open('started', 'w').close()
time.sleep(60)
"""
    with shim(tmp_path, trainer):
        assert [rank.stacks for rank in sample(tmp_path)] == [()]
        assert (tmp_path / "data").read_bytes() == b""


def test_a_program_that_a_rank_becomes_is_not_ended_by_the_question(tmp_path: Path) -> None:
    """It has neither the handler nor the memory."""
    trainer = (
        "import os\nopen('started', 'w').close()\nos.execvp('sh', ['sh', '-c', 'exec sleep 60'])\n"
    )
    with shim(tmp_path, trainer) as pid:
        while Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
            time.sleep(0.02)
        assert sample(tmp_path) == []
        assert Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
