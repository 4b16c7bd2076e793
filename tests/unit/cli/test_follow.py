"""What is seen of a job while it runs: its newest numbers, its log."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runners.cli.runs.follow import PROGRESS, Plain
from runners.core import job_record, plan_record, shell
from runners.core.errors import SystemFault
from runners.core.job_record import Job, JobPaths
from runners.core.plan_record import PlanRecord
from runners.core.shell import Result
from runners.jobs import job_status, metrics_tail, wording
from runners.jobs.logs import PIECE, JobLog, concerns, says_end
from runners.jobs.metrics_tail import Reading
from runners.jobs.wording import reason_in_words
from runners.launching.follow import Follower
from runners.schedulers import slurm

from ..runs import a_run
from ..tables import each

STEP = {"event": "step", "step": 100, "epoch": 1, "loss": 0.5, "samples_per_s": 80.0}
EPOCH = {"event": "epoch", "step": 120, "epoch": 1, "loss": 0.4, "samples_per_s": 81.0}
WHEN = {"time": "2026-11-21T20:00:00.500+00:00"}
THEN = 1795291200.5


def test_the_newest_numbers(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    assert metrics_tail.last(paths) is None
    lines = [{**STEP, **WHEN}, {**EPOCH, "steps": 480, **WHEN}]
    paths.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "st')
    assert metrics_tail.last(paths) == Reading(120, THEN, 480, 1, 0.4, 81.0, "samples")


def test_only_the_tail_is_read(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    line = json.dumps({**STEP, **WHEN}) + "\n"
    paths.metrics.write_text("x" * 10 * metrics_tail.TAIL + "\n" + line)
    assert metrics_tail.last(paths) == Reading(100, THEN, None, 1, 0.5, 80.0, "samples")
    paths.metrics.write_text("[1]\n\n" + '{"step": 1}\n')
    assert metrics_tail.last(paths) is None


def everything(log: JobLog) -> list[bytes]:
    return [line for lines in log.new() for line in lines]


NOISE = """\
0@n1 | WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
0@n1 | I0000 00:00:1764180000.1 7 port.cc:153] oneDNN custom operations are on. You may see \
slightly different numerical results due to floating-point round-off errors. To turn them off, set \
the environment variable `TF_ENABLE_ONEDNN_OPTS=0`.
0@n1 | [W1126 18:00:00.1 socket.cpp:767] [c10d] The hostname of the client socket cannot be \
retrieved. err=-3
1@n2 | I0000 00:00:1764180000.1 7 cpu_feature_guard.cc:227] This TensorFlow binary is optimized \
to use available CPU instructions in performance-critical operations.
1@n2 | To enable the following instructions: AVX2 FMA, in other operations, rebuild \
TensorFlow with the appropriate compiler flags.
"""
SIGNAL = """\
0@n1 | step 1/2
To enable the following instructions: AVX2, rebuild TensorFlow with flags: no rank's
1@n2 | W0000 00:00:1764180000.1 7 allocator.cc:1] Allocation of 1 exceeds 10% of free memory
"""


class Seen(Plain):
    """A screen that keeps what it is to show."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.lines: list[bytes] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, lines: list[bytes]) -> None:
        self.lines += lines


def test_what_frameworks_say_at_each_start_is_left_out_and_that_is_said_once(
    tmp_path: Path,
) -> None:
    paths = JobPaths(tmp_path / "train-1")
    paths.log.parent.mkdir(parents=True)
    follower = Follower(paths, Job("1", "train", "slurm", str(paths.log), 1.0, ""), None, None)
    screen = Seen()
    for text in (NOISE, SIGNAL, NOISE):
        with paths.log.open("a") as file:
            file.write(text)
        follower._pass_on(screen)
    assert b"\n".join(screen.lines).decode() + "\n" == SIGNAL
    assert sum("stay in the log alone" in text for text in screen.said) == 1


def test_log_lines_are_whole_and_read_once(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    log = JobLog(path)
    assert everything(log) == []
    path.write_bytes("0@n1 | é".encode()[:-1])
    assert everything(log) == []
    with path.open("ab") as file:
        file.write("é".encode()[-1:] + b"\nrest")
    assert everything(log) == ["0@n1 | é".encode()]
    assert log.rest == b"rest"


def test_a_line_without_end_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"x" * 5 * PIECE + b"\nend\n")
    log = JobLog(path)
    lines = everything(log)
    assert b"".join(lines) == b"x" * 5 * PIECE + b"end"
    assert max(map(len, lines)) <= 2 * PIECE


@each(
    (b"3@n2 | x", {1, 3}, True),
    (b"3@n2 | x", {0}, False),
    (b"srun: error", {0}, True),
    (b"3@n2 | x", None, True),
)
def test_lines_of_ranks(line: bytes, ranks: set[int] | None, shown: bool) -> None:
    assert concerns(line, ranks) is shown


@each(
        ("Priority", "other jobs are before it"),
        ("NonZeroExitCode", ""),
        ("ReqNodeNotAvail,_UnavailableNodes:n[1-2]",
         "a node that it needs is not available (UnavailableNodes:n[1-2])"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority",
         "the nodes that it needs are down, drained or kept for other jobs"),
        ("QOSMaxJobsPerUserLimit", "its QOS allows no more for now: QOSMaxJobsPerUserLimit"),
        ("AssocGrpCPUMinutesLimit",
         "your account allows no more for now: AssocGrpCPUMinutesLimit"),
        ("RaisedSignal:9(Killed)", "ended by signal 9"),
        ("Not Running: no nodes", "Not Running: no nodes"),
        ("SomethingNew", "SomethingNew"),
        ("", ""),
    )  # fmt: skip
def test_reasons_in_words(reason: str, words: str) -> None:
    assert reason_in_words(reason) == words


def test_places_in_the_queue() -> None:
    """Higher priority is first, then the older; other partitions and held jobs do not count."""
    text = "".join(
        f"{line}|\n"
        for line in ("5|10|cpu", "7|30|gpu", "8_[3-9]|20|gpu,cpu", "9|10|cpu", "3|0|cpu")
    )
    assert slurm.parse_queue(text, "9") == 2
    assert slurm.parse_queue(text, "8_4") == 1
    assert slurm.parse_queue(text, "7") == 0
    assert slurm.parse_queue(text, "4") is None


@each(
    (b"0@n1 |   step 100/368  epoch 5  loss 0.1  0:04 left", (b"100", b"368")),
    (b"step 1/2", (b"1", b"2")),
    (b"0@n1 | two step 1/2", None),
    (b"0@n1 |   step 1/2x", None),
)
def test_lines_that_move_the_bar(line: bytes, step: tuple[bytes, bytes] | None) -> None:
    found = PROGRESS.match(line)
    assert (found.groups()[:2] if found else None) == step


def test_times() -> None:
    assert [wording.span(seconds) for seconds in (None, 7.4, 3599.6, 90061)] == [
        "", "0:07", "1:00:00", "1-01:01:01",
    ]  # fmt: skip
    now = time.mktime((2026, 11, 21, 20, 0, 0, 0, 0, -1))
    assert wording.moment(now + 600, now) == "20:10"
    assert wording.moment(now + 86400, now) == "2026-11-22 20:00"


def test_history_is_asked_once_for_all_that_were_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], env: dict[str, str] | None = None) -> Result:
        asked.append(argv)
        return Result(0, "41|NODE_FAIL|n1|9\n" if argv[0] == "sacct" else "", "")

    monkeypatch.setattr(shell, "run", run)
    runs = [a_run(tmp_path / id, id=id) for id in ("40", "41", "42")]
    runs[0][0].exit.write_text('{"exit_code": 0, "time": 12, "began": 2.5}')
    found = job_status.statuses(runs)
    assert [status.state.name for status in found] == ["COMPLETED", "NODE_FAIL", "UNKNOWN"]
    assert (found[0].elapsed, found[1].elapsed, found[1].nodes) == (9.5, 9, "n1")
    assert [argv[0] for argv in asked] == ["squeue", "sacct"]
    assert asked[1][-1] == "41,42"


def test_an_end_stays_known_with_its_nodes_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path / "train-1")
    line = "42|TIMEOUT|TimeLimit|0|n[1-2]|1:00:02|0:00|1|\n"
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(0, line, ""))
    job_status.status(*run)
    monkeypatch.setattr(shell, "run", lambda argv, env: pytest.fail("asked again"))
    later = job_status.status(run[0], job_record.load(run[0]))
    assert (later.state.name, later.nodes, later.elapsed) == ("TIMEOUT", "n[1-2]", 3602)


def test_a_cancelled_job_is_cancelled_for_who_follows_it_too(tmp_path: Path) -> None:
    """One that finished well at the same moment has finished well."""
    for code, state in ((143, "CANCELLED"), (0, "COMPLETED")):
        paths, job = a_run(tmp_path / str(code), id=f"local-{2**22 + 1}-1", scheduler="local")
        replace(job, state="CANCELLED").save(paths)
        paths.exit.write_text(f'{{"exit_code": {code}, "time": 1}}')
        assert job_status.status(paths, job).state.name == state


def test_a_scheduler_is_asked_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within half an hour of waiting; at once when something in the run's folder changes."""
    clock, asked = [0.0], []
    paths, job = a_run(tmp_path / "train-1")

    def run(argv: list[str], env: dict[str, str]) -> Result:
        asked.append(clock[0])
        state = "RUNNING" if paths.log.exists() else "PENDING"
        state = "COMPLETED" if paths.exit.exists() else state
        return Result(0, f"42|{state}|None|0|n1|0:01|1:00|1|\n", "")

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 1800 and not paths.log.exists():
            paths.log.parent.mkdir()
            paths.log.touch()
        if clock[0] > 2400 and not paths.exit.exists():
            paths.exit.write_text('{"exit_code": 0, "time": 1}')

    monkeypatch.setattr(shell, "run", run)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    (*_, (last,)) = job_status.until_end([(paths, job)])
    assert last.state.name == "COMPLETED"
    assert sum(when < 1800 for when in asked) < 75
    assert sum(1800 <= when < 2400 for when in asked) < 90
    assert clock[0] < 2401


@each(
    (b"srun: error: n2: task 1: Exited with exit code 1", True),
    (b"srun: error: n1: tasks 0,2-3: Bus error", True),
    (b"srun: Terminating StepId=3000.0", True),
    (b"slurmstepd-n1: error: *** STEP 3000.0 ON n1 CANCELLED AT 2026-11-22 ***", True),
    (b"srun: error: Unable to create step for job 3000: Invalid account", False),
    (b"slurmstepd: error: *** JOB 3000 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***", False),
    (b"0@n1 | srun: error: n2: task 1: of a trainer", False),
)
def test_what_slurm_says_of_ranks_that_ended(line: bytes, so: bool) -> None:
    assert says_end(line) is so


def test_a_plan_in_another_form_is_refused(tmp_path: Path) -> None:
    paths, _ = a_run(tmp_path / "old-1")
    assert plan_record.read(paths) == PlanRecord()
    paths.plan.write_text('[{"what": "runtime", "value": "apptainer"}]')
    with pytest.raises(SystemFault, match="written by another version of runner"):
        plan_record.read(paths)
