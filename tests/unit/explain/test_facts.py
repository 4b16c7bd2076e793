"""What an explanation rests on: the first failing rank, and the log in one pass."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract import failure_kinds as kinds
from runners.contract.enums import Controller
from runners.core import plan_record
from runners.core.command_line import CommandLine, Given
from runners.core.diagnosis import Certainty
from runners.core.errors import SystemFault
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import (
    Dataset,
    ImageAccess,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Interruption, Launching, Network, Plan, Staging, Wireup
from runners.core.trainer import Trainer
from runners.explain import read_log
from runners.explain.explanation import Explanation
from runners.explain.facts import LogPattern
from runners.explain.judge import explain
from runners.injob.rank import problems
from runners.injob.rank.problems import Problem

from ..failures import leave, words

TYPED = CommandLine(settings=(Given("image", "a.sif"),), trainer="t.py")
GOOD_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("signal", "tasks", "world", "port"), 1),
    **{name: ["x"] for name in ("traceback", "evidence", "alone", "imports", "wanted", "usable")},
    **{name: [[0, "n0"]] for name in ("ended", "late", "silent", "unreached")},
    "asked": [15],
    "guessed": False,
}
FAILED = Status(JobState.FAILED, "NonZeroExitCode", 1)


def made(folder: Path, text: str, *records: tuple[int, float, str]) -> tuple[JobPaths, Job]:
    """Return a run with this log, and records of (rank, time, error)."""
    paths = JobPaths(folder / "t-1")
    paths.log.parent.mkdir(parents=True)
    paths.failures.mkdir()
    paths.log.write_text(text)
    for rank, time, error in records:
        leave(paths, rank, time, words(error))
    return paths, Job("42", "t", SchedulerName.SLURM, str(paths.log), 1.0, typed=TYPED)


def explained(folder: Path, text: str, *records: tuple[int, float, str]) -> Explanation:
    """Return the explanation of such a run, which failed."""
    return explain(*made(folder, text, *records), FAILED)


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.COMPLETED])
def test_a_job_that_has_not_failed_is_not_explained(tmp_path: Path, state: JobState) -> None:
    run = made(tmp_path, "0@n0 | error: none\n")
    said = explain(*run, Status(state))
    assert (said.failed, said.fix, said.evidence_lines) == (False, None, [])


def test_the_code_that_counts_is_the_first_ranks(tmp_path: Path) -> None:
    """The job's own is 143 where srun ended another rank before it failed in the same way."""
    paths, job = made(tmp_path, "", (0, 1.0, "error: unrecognized arguments: --lr 1"))
    record = paths.failures / "rank-0.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "exit_code": 2}))
    said = explain(paths, job, Status(JobState.FAILED, "NonZeroExitCode", 143))
    assert (said.id, said.rank) == ("bad-argument", 0)


def test_the_first_rank_is_not_one_that_followed(tmp_path: Path) -> None:
    said = explained(
        tmp_path,
        "",
        (0, 1.0, "HorovodInternalError: Connection closed"),
        (1, 2.0, "ValueError: boom"),
    )
    assert (said.id, said.rank, said.host) == ("rank-exception", 1, "n1")
    assert said.evidence_lines == ["failures/rank-1.json: 1@n1 | exit code 1: ValueError: boom"]


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_a_field_of_another_form_is_damage(tmp_path: Path, kind: str) -> None:
    """A record may be another user's: whatever it holds, it is explained or named as damaged."""
    paths, job = made(tmp_path, "")
    own = {name: GOOD_FIELDS.get(name, "x") for name in kinds.KINDS[kind]}
    leave(paths, 0, 1.0, Problem(kind, "m", own), size=2)
    assert explain(paths, job, FAILED).id
    file = paths.failures / "rank-0.json"
    good = json.loads(file.read_text())
    for name in good if kind == kinds.EXIT else own:  # the others are of every kind
        wrong: list[Any] = [None, 1.5, "x", [], {}, [1], ["x"], [[1]], [[0, "n0", 1]]]
        for value in wrong:
            file.write_text(json.dumps({**good, name: value}))
            with contextlib.suppress(SystemFault):
                explain(paths, job, FAILED)
    for name in own:
        file.write_text(json.dumps({**good, name: {}}))
        with pytest.raises(SystemFault, match="cannot read") as told:
            explain(paths, job, FAILED)
        assert f"{name} of rank-0.json" in told.value.evidence


def test_clocks_that_disagree_with_the_log_are_told(tmp_path: Path) -> None:
    text = "runner: rank 1@n1 failed: x\nrunner: rank 0@n0 failed: y\n"
    records = ((0, 1.0, "KeyError: 0"), (1, 2.0, "KeyError: 1"))
    assert "rank 0 was first by the nodes' clocks, rank 1 by the order of the log" in (
        explained(tmp_path, text, *records).because
    )


def test_a_rank_without_a_record_is_named_by_srun(tmp_path: Path) -> None:
    text = (
        "srun: error: n3: task 3: Segmentation fault (core dumped)\n"
        "srun: Terminating StepId=42.0\n"
        "srun: error: n2: task 2: Bus error\n"
    )
    paths, job = made(tmp_path, text)
    leave(paths, 0, 1.0, problems.of_process(143, []), 143)
    said = explain(paths, job, FAILED)
    assert (said.rank, said.host) == (3, "n3")


def test_what_a_peer_says_is_not_of_a_rank_that_was_killed_with_its_shim(tmp_path: Path) -> None:
    text = (
        "1@n1 | [/opt/third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [10.77.0.2]:572:"
        " Connection reset by peer\n"
        "1@n1 | runner: rank 1@n1 failed: exit code 1: HorovodInternalError: shut down\n"
        "srun: error: n0: task 0: Killed\n"
        "srun: error: n1: task 1: Exited with exit code 143\n"
    )
    said = explained(tmp_path, text, (1, 1.0, "HorovodInternalError: shut down"))
    assert (said.id, said.rank) == ("rank-killed", 0)


def test_a_rank_that_pals_ended_after_another_is_not_the_first_to_fail(tmp_path: Path) -> None:
    text = "n1: rank 14 died from signal 15\nn2: rank 3 died from signal 9\n"
    said = explained(tmp_path, text)
    assert (said.id, said.rank) == ("rank-killed", 3)


def test_srun_ends_ranks_after_the_first(tmp_path: Path) -> None:
    text = (
        "runner: rank 0@n0 failed: exit code 1: ValueError: boom\n"
        "srun: error: n0: task 0: Exited with exit code 1\n"
        "srun: Terminating StepId=42.0\n"
        "srun: error: n1: task 1: Bus error (core dumped)\n"
    )
    assert explained(tmp_path, text, (0, 1.0, "ValueError: boom")).rank == 0


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("ModuleNotFoundError: No module named 'einops'", "python-module-missing"),
        ("OSError: [Errno 122] Disk quota exceeded", "quota"),
        ("OSError: [Errno 5] Input/output error: '/d/x'", "input-output-error"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/d/x'", "file-missing"),
        ("FileNotFoundError: Shard missing: /d/x.pt", "file-missing"),
        ("FileNotFoundError: Config file configs/train.yaml does not exist", "rank-exception"),
        ("FileNotFoundError: https://example.org/x.bin not found", "rank-exception"),
        ("FileNotFoundError: missing train/val folders", "rank-exception"),
        ("ValueError: requires 8 GPUs, but world size is 4", "rank-exception"),
        ("ValueError: it needs 2 GPUs of memory but got 16 GB free", "rank-exception"),
        (
            "ValueError: requires 1 GPU with compute capability 8.0, but your GPU found is 7.0",
            "rank-exception",
        ),
        ("ValueError: expected 1 GPUs but got 4", "rank-exception"),
        (
            "NotFoundError: Trying to access resource hash_table_7 located in device "
            "/job:localhost/replica:0/task:0/device:CPU:0 from device /device:GPU:0",
            "rank-exception",
        ),
        ("ValueError: Unknown device cuda:4 for local_rank 4", "rank-exception"),
        ("RuntimeError: No such device: local_rank 4 of 4", "rank-exception"),
        (
            "RuntimeError: Native API failed. Native API returns: -11 "
            "(PI_ERROR_BUILD_PROGRAM_FAILURE)",
            "rank-exception",
        ),
        ("RuntimeError: Native API returns: -30 (PI_ERROR_INVALID_VALUE)", "rank-exception"),
        ("DatasetNotFoundError: Dataset foo not found", "rank-exception"),
        ("MyOwnError: odd", "rank-exception"),
    ],
)
def test_a_log_without_records_is_explained_by_its_first_exception(
    tmp_path: Path, error: str, name: str
) -> None:
    text = f'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n{error}\n'
    text += "OddError: later\nsrun: error: n3: task 0: Exited with exit code 1\n"
    said = explained(tmp_path, text)
    assert (said.id, said.certainty.value) == (name, "likely"), said
    assert any(error in line for line in said.evidence_lines)
    noise = "n1:1:1 [0] NCCL INFO x\nWARNING: Could not find any nv files on this host!\n"
    assert explained(tmp_path / "noise", noise + text).id == name


def test_the_exception_of_another_does_not_explain_who_was_killed(tmp_path: Path) -> None:
    text = "MyOwnError: odd\nsrun: error: n3: task 0: Killed\n"
    assert explained(tmp_path, text).id == "rank-killed"


def test_what_nobody_knows_is_told_with_its_first_errors(tmp_path: Path) -> None:
    text = "0@n0 | fine\n1@n1 | error: odd\n0@n0 | error: later\n"
    said = explained(tmp_path, text, (1, 1.0, ""))
    assert (said.id, said.certainty.value) == ("unknown", "unsure")
    assert "logs/job.log:2: 1@n1 | error: odd" in said.evidence_lines
    assert not any("later" in line for line in said.evidence_lines)


def test_colours_hide_nothing(tmp_path: Path) -> None:
    """Apptainer's and srun's words as they stand in a job's log where TERM is not set."""
    text = (
        "\x1b[91mERROR  : Failed to create user namespace: maximum number of user namespaces "
        "exceeded, check /proc/sys/user/max_user_namespaces\n"
        "\x1b[0msrun: error: n1: task 0: Exited with exit code 1\n"
    )
    said = explained(tmp_path, text)
    assert (said.id, said.rank, said.host) == ("no-user-namespaces", 0, "n1")
    assert not any("\x1b" in line for line in said.evidence_lines)


def test_no_record_and_no_log(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    paths.log.unlink()
    said = explain(paths, job, Status(JobState.FAILED, "", 5))
    assert (said.id, said.rank) == ("unknown", None)
    assert "exit code 5" in said.what


def test_only_the_last_start_of_a_job_counts(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("0@n0 | x\nrunner: start 1\n0@n0 | y\n0@n0 | x later\n")
    (hit,) = read_log.read(path, [LogPattern("x")], "0@n0").hits[LogPattern("x")]
    assert str(hit) == "logs/job.log:4: 0@n0 | x later"


def test_a_big_log_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    with path.open("w") as file:
        for step in range(10_000):
            file.write(f"{step % 64}@n1 |   step {step}  an Error rate of 0.3, no more text here\n")
            file.write("8@n1 | loss 0.3, and more of such text without an end to see\n" * 25)
        file.write("9@n1 | MemoryError: at last\n")
        file.write("x" * 1_000_000)
    mark = LogPattern("Error: at last", "^MemoryError")
    tracemalloc.start()
    found = read_log.read(path, [mark], "9@n1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.hits[mark][0].number == 260_001
    assert found.last[-1].text == "MemoryError: at last"
    assert peak < path.stat().st_size / 2, peak


def test_a_guess_of_the_shim_is_not_called_sure(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "", (0, 1.0, "OSError: Disk quota exceeded: '/x/y'"))
    assert explain(paths, job, FAILED).certainty == Certainty.CERTAIN
    record = paths.failures / "rank-0.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "guessed": True}))
    assert explain(paths, job, FAILED).certainty == Certainty.LIKELY


# Not caused on the cluster, which has no GPU: seen as text only (PyTorch 2.10, NCCL 2.27).
@pytest.mark.parametrize(
    ("message", "name", "fix"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
            "gpu-memory",
            "Take a smaller batch",
        ),
        (
            "RuntimeError: CUDA error: invalid device ordinal",
            "no-such-gpu",
            "Where each rank sees one GPU alone (`--gpus-per-task 1`), that is number 0",
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system",
            "nccl",
            "--env NCCL_DEBUG=INFO",
        ),
        ("RuntimeError: No CUDA GPUs are available", "no-gpu", "--nv --gpus-per-node 1"),
    ],
)
def test_gpus_as_text(tmp_path: Path, message: str, name: str, fix: str) -> None:
    said = explained(tmp_path, "", (0, 1.0, f"{message}"))
    assert said.id == name
    assert str(said.fix).startswith(fix)


def test_a_port_that_another_user_took_is_the_cause_whoever_failed_first(tmp_path: Path) -> None:
    """Ranks that had talked to the stranger may have ended before rank 0 saw it."""
    paths, job = made(tmp_path, "")
    leave(paths, 1, 1.0, Problem(kinds.EXIT, "odd", {"error": "EOFError", "guessed": False}), 1)
    leave(paths, 0, 2.0, Problem(kinds.PORT_TAKEN, "as told", {"port": 29512}), 82)
    said = explain(paths, job, FAILED)
    assert (said.id, said.rank) == ("port-taken", 0), said


# Seen as text only, since to cause it would need another kernel.
def test_no_user_namespaces_as_text(tmp_path: Path) -> None:
    text = "FATAL:   container creation failed: failed to create user namespace: not permitted\n"
    assert explained(tmp_path, text).id == "no-user-namespaces"


NOBODY: dict[str, object] = {"ended": [], "late": [], "silent": [], "unreached": []}


@pytest.mark.parametrize(
    ("kind", "fields", "name", "rank", "fix"),
    [
        (kinds.PORT_TAKEN, {"port": 29512}, "port-taken", 0, "the same command once more"),
        (
            kinds.NO_INTERFACE,
            {"wanted": ["ib9"], "usable": ["ib0", "eth0"]},
            "wrong-interface",
            0,
            "--network-interfaces ib0",
        ),
        (
            kinds.MISLEADING_NAME,
            {"interface": "eth0"},
            "misleading-host-name",
            0,
            "--controller mpi",
        ),
        (
            kinds.NOT_MET,
            {**NOBODY, "late": [[1, "n2"]], "silent": [[3, "n4"]]},
            "rank-did-not-come",
            1,
            "--env HOROVOD_GLOO_TIMEOUT_SECONDS=600",
        ),
        (
            kinds.NOT_MET,
            {**NOBODY, "silent": [[3, ""]]},
            "rank-did-not-come",
            3,
            "runner logs --rank 3 42",
        ),
        (
            kinds.NOT_MET,
            {**NOBODY, "unreached": [[0, "n1"]]},
            "rank-did-not-come",
            0,
            "runner doctor --job --nodes 2 --image a.sif",
        ),
        (
            kinds.WORLD_SIZE,
            {"tasks": 4, "world": 1, "framework": "Horovod"},
            "size-mismatch",
            0,
            "--controller gloo",
        ),
        (
            kinds.WORLD_SIZE,
            {"tasks": 4, "world": 1, "framework": "tf.distribute"},
            "size-mismatch",
            0,
            "--tf-config",
        ),
        (kinds.NO_WORLD_FORMED, {"tasks": 4, "alone": []}, "ranks-alone", 0, "--no-gate"),
        (
            kinds.NO_WORLD_FORMED,
            {"tasks": 4, "alone": ["mpi4py"]},
            "ranks-alone",
            0,
            "--controller mpi --mpi pmix",
        ),
        (
            kinds.NO_WORLD_FORMED,
            {"tasks": 2, "alone": [], "imports": ["lightning", "torch"]},
            "ranks-alone",
            0,
            'Trainer(num_nodes=NODES, strategy="ddp")',
        ),
        (
            kinds.NO_WORLD_FORMED,
            {"tasks": 2, "alone": [], "imports": ["tensorflow"]},
            "ranks-alone",
            0,
            "tf.distribute.MultiWorkerMirroredStrategy(), and runner launch --tf-config",
        ),
        (
            kinds.SEVERAL_WORLDS,
            {"tasks": 2, "world": 2, "framework": "Horovod", "why": "tasks 0 and 1 both have ..."},
            "several-worlds",
            0,
            "runner launch --ntasks-per-node N ... train.py",
        ),
        (
            kinds.DIFFERENT_WEIGHTS,
            {"parameter": "fc.weight", "cause": "no gradients ...", "remedy": "DDP(model)"},
            "different-weights",
            0,
            "DDP(model); or, for ranks that train models of their own on purpose: "
            "runner launch --no-",
        ),
        (kinds.RENDEZVOUS, {}, "no-world", 0, "runner logs"),
        (kinds.HOST_MPI, {"error": "no libmpi"}, "host-mpi-mismatch", 0, "leave out --host-mpi"),
        (
            kinds.DRIVER,
            {"reason": kinds.NO_DRIVER, "evidence": ["no library"]},
            "driver-mismatch",
            0,
            "--no-nv",
        ),
        (kinds.CPU, {"evidence": ["no avx2"]}, "cpu-too-old", 0, "--exclude"),
        (kinds.NOT_STAGED, {"what": "image"}, "staging-failed", 0, "--stage-image none"),
    ],
)
def test_a_kind_has_its_explanation(
    tmp_path: Path, kind: str, fields: dict[str, object], name: str, rank: int, fix: str
) -> None:
    paths, job = made(tmp_path, "")
    leave(paths, 0, 1.0, Problem(kind, "as told", fields), 82)
    said = explain(paths, job, FAILED)
    assert (said.id, said.rank) == (name, rank), said
    assert str(said.fix).startswith(fix), said


@pytest.mark.parametrize("recorded", [True, False])
def test_what_open_mpi_says_comes_before_that_a_rank_ended_in_init(
    tmp_path: Path, recorded: bool
) -> None:
    log = "1@n1 | Component: nope\n1@n1 | [n1:3] *** An error occurred in MPI_Init_thread\n"
    paths, job = made(tmp_path, log)
    planned(paths)
    if recorded:
        leave(paths, 1, 1.0, Problem(kinds.IN_INIT, "it exited in hvd.init()"), 82)
    said = explain(paths, job, FAILED)
    assert (said.id, said.rank, said.host) == ("mpi-aborted", 1, "n1")
    assert "logs/job.log:1: 1@n1 | Component: nope" in said.evidence_lines


def test_of_ranks_that_end_as_one_the_one_that_tells_is_shown(tmp_path: Path) -> None:
    said = explained(
        tmp_path,
        "",
        (1, 1.0, ""),
        (0, 1.1, "error: on rank 2@n5: training diverged: the loss is nan in step 2"),
    )
    assert (said.id, said.rank, said.host) == ("training-diverged", 2, "n5")
    assert said.evidence_lines[0].startswith("failures/rank-0.json: 0@n0 | ")


def test_a_rank_that_was_ended_before_it_left_a_record_tells_by_its_line(tmp_path: Path) -> None:
    words = "training diverged: the loss is nan in step 2"
    said = explained(tmp_path, f"0@n0 | error: {words}\n", (1, 1.0, ""))
    assert (said.id, said.rank, said.host) == ("training-diverged", 1, "n1")
    assert said.evidence_lines == [
        "failures/rank-1.json: 1@n1 | exit code 1",
        f"logs/job.log:1: 0@n0 | error: {words}",
    ]
    line = f"0@n0 | error: on rank 2@n5: {words}\n"
    said = explained(tmp_path / "named", line, (1, 1.0, ""))
    assert (said.id, said.rank, said.host) == ("training-diverged", 2, "n5")


@pytest.mark.parametrize("piece", [64, 1 << 20])
def test_the_last_lines_are_those_of_the_first_rank_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(read_log, "PIECE", piece)
    path = tmp_path / "job.log"
    lines = [f"{number % 3}@n1 | line {number}" for number in range(1, 200)]
    path.write_text("\n".join([*lines, "srun: Terminating", "", ""]))
    found = read_log.read(path, [], "1@n1")
    numbers = [number for number in range(1, 200) if number % 3 == 1][-read_log.LAST :]
    assert [(one.number, one.text) for one in found.last] == [(n, f"line {n}") for n in numbers]
    everybody = read_log.read(path, [])
    assert [(one.number, one.text) for one in everybody.last[-2:]] == [
        (199, "line 199"),
        (200, "srun: Terminating"),
    ]
    assert (found.lines, found.size) == (201, path.stat().st_size)


def launched(job: Job, **settings: str) -> Job:
    """Return the job as launched with these settings."""
    given = tuple(Given(name.replace("_", "-"), value) for name, value in settings.items())
    return replace(job, typed=replace(job.typed, settings=(*job.typed.settings, *given)))


NOTHING_ASKED = Resources()


OWN = Trainer("t", None, Path("/w/t.py"))
RECIPE = Trainer("torch_mnist", "recipes.torch_mnist", None)


def planned(
    paths: JobPaths,
    runtime: str = "apptainer",
    resources: Resources = NOTHING_ASKED,
    data: tuple[Dataset, ...] = (),
    trainer: Trainer = OWN,
    request: Mapping[str, Any] | None = None,
    **decisions: Any,
) -> None:
    """Leave the plan of the run; `request` are further fields of what was asked for."""
    image = ImageInfo(Path("a.sif"))
    spec = JobSpec("t", image, trainer, resources, Path("r"), data=data, **(request or {}))
    launching, wireup = (
        Launching(SchedulerName.SLURM, RuntimeName(runtime), LauncherName.SRUN),
        Wireup(Controller.MPI, "pmix"),
    )
    plan_record.write(paths, Plan(spec, resources, launching, wireup, **decisions))


def saved(paths: JobPaths, step: int) -> None:
    """Leave a checkpoint of this step."""
    paths.checkpoints.mkdir()
    (paths.checkpoints / f"step-{step}.json").write_text("{}")


def test_a_time_limit_offers_a_longer_one_and_to_be_queued_again(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "srun: error: n1: task 0: Bus error\n")
    saved(paths, 120)
    said = explain(paths, launched(job, time="00:30:00"), Status(JobState.TIMEOUT))
    assert (said.id, said.who) == ("time-limit", "")
    assert "time limit of 00:30:00" in said.what
    assert "step 120" in said.what
    resume = f"-- --resume {paths.root}"
    assert str(said.fix) == f"--time 01:00:00 {resume}"
    assert [str(other.fix) for other in said.others] == [f"--requeue {resume}"]
    planned(paths, interruption=Interruption(signal=60, requeue_limit=1))  # by its site's profile
    assert explain(paths, launched(job, time="00:30:00"), Status(JobState.TIMEOUT)).others == ()


@pytest.mark.parametrize(
    ("steps", "step", "needs", "offered"),
    [
        (
            100_000,
            158,
            "10:32:55",
            "--time 01:00:00 --requeue-limit 22 --requeue --signal USR1@120",
        ),
        (1000, 100, "10:00", "--time 01:00:00 --requeue --signal USR1@120"),
    ],
)
def test_a_training_that_cannot_finish_within_its_limit(
    tmp_path: Path, steps: int, step: int, needs: str, offered: str
) -> None:
    paths, job = made(tmp_path, "")
    saved(paths, 120)
    line = {
        "time": "2026-11-28T10:00:00+00:00",
        "event": "step",
        "step": step,
        "steps": steps,
        "loss": 0.1,
    }
    paths.metrics.write_text(json.dumps(line) + "\n")
    said = explain(paths, launched(job, time="00:01:00"), Status(JobState.TIMEOUT))
    assert f"at its pace all steps need {needs}: it cannot finish within it" in said.what
    assert str(said.fix) == f"{offered} -- --resume {paths.root}"
    assert [each.does for each in said.others] == [
        "to finish in one job, where its partition gives so much time"
    ]


def test_data_that_is_missing_is_looked_for_where_the_plan_found_it(tmp_path: Path) -> None:
    error = "t: error: no MNIST in /data/a: train-images-idx3-ubyte"
    paths, job = made(tmp_path, "", (0, 1.0, error))
    assert "runner data fetch" in str(explain(paths, job, FAILED).fix)
    older = explain(paths, launched(job, data="/sets/a"), FAILED)
    assert str(older.fix) == "ls -l /sets/a", "its plan does not tell"
    planned(paths, data=(Dataset("a", Path("/sets/a")), Dataset("b", Path("/sets/b c"))))
    said = explain(paths, launched(job, data="a"), FAILED)
    assert (said.id, str(said.fix)) == ("data-missing", "ls -l /sets/a '/sets/b c'")


def test_a_warning_that_no_trainer_handles_is_left_out(tmp_path: Path) -> None:
    """It comes of --requeue as of --signal."""
    paths, job = made(tmp_path, "")
    leave(paths, 0, 1.0, problems.of_process(138, [], {signal.SIGUSR1}), 138)
    said = explain(paths, job, FAILED)
    assert (said.id, str(said.fix)) == ("signal-not-handled", "runner logs --rank 0 42")
    planned(paths, interruption=Interruption(signal=60))
    asked = launched(job, signal="USR1@60")
    assert str(explain(paths, asked, FAILED).fix) == "leave out --signal"
    planned(paths, interruption=Interruption(True, 120, 3))
    asked = launched(job, requeue_limit="3")
    assert str(explain(paths, asked, FAILED).fix) == "--no-requeue, leave out --requeue-limit"


def test_what_the_plan_asked_of_the_scheduler_is_what_was_too_little(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    planned(paths, resources=Resources(mem="2G", time="10"))
    said = explain(paths, job, Status(JobState.OUT_OF_MEMORY))
    assert str(said.fix) == "--mem 4G"
    assert "time limit of 00:10:00" in explain(paths, job, Status(JobState.TIMEOUT)).what


def test_no_route_through_the_interface_of_the_plan(tmp_path: Path) -> None:
    """Whatever asked for it: the option, runner.toml or the site's profile."""
    words = "gloo/transport/tcp/pair.cc:144] connect [10.0.0.2]:29512: No route to host"
    paths, job = made(tmp_path, f"0@n1 | {words}\n")
    leave(paths, 0, 1.0, Problem(kinds.IN_INIT, "it exited in hvd.init()"), 82)
    planned(paths, network=Network(("eno1", "ib9")))
    said = explain(paths, job, FAILED)
    assert said.id == "wrong-interface", said
    assert "through the requested interface: eno1,ib9" in said.what
    assert str(said.fix) == "leave out --network-interfaces"
    planned(paths)
    assert str(explain(paths, job, FAILED).fix) == "--controller mpi"


def test_a_container_that_lost_its_image_is_told_as_that(tmp_path: Path) -> None:
    """As where Slurm has no control groups: its warning ends squashfuse too."""
    paths, job = made(tmp_path, "")
    saved(paths, 7)
    leave(paths, 0, 1.0, problems.of_process(135, [], {10}), 135)
    said = explain(paths, job, FAILED)
    assert said.id == "image-unmounted"
    assert "step 7" in said.what
    assert str(said.fix) == f"--stage-image mount -- --resume {paths.root}"
    # What counts is what `auto` became, which may have been a mount already.
    auto = launched(job, **{"stage-image": "auto"})
    for access, fix in ((ImageAccess.MOUNTED, "unpack"), (ImageAccess.COPIED, "mount")):
        planned(paths, staging=Staging(image=access))
        assert str(explain(paths, auto, FAILED).fix).startswith(f"--stage-image {fix} -- ")
    planned(paths, staging=Staging(image=ImageAccess.UNPACKED))
    assert explain(paths, auto, FAILED).id == "rank-crashed"
    paths.plan.unlink()
    leave(paths, 0, 1.0, problems.of_process(135, []), 135)
    assert explain(paths, job, FAILED).id == "rank-crashed"


def test_a_runs_folder_that_the_nodes_do_not_see(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    paths.log.unlink()
    said = explain(paths, job, Status(JobState.FAILED, "RaisedSignal:53(Real-time_signal_19)", 1))
    assert said.id == "runs-folder-not-shared"
    assert "--runs-dir" in str(said.fix)


def test_what_the_container_said_may_be_in_the_file_of_errors(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "0@n1 | hello\n")
    errors = tmp_path / "t.err"
    text = "FATAL:   could not open image /tmp/a.sif: no such file or directory\n"
    errors.write_text(f"0@n1 | error: of a rank, which the log has\n{text}")
    said = explain(paths, replace(job, error=str(errors)), FAILED)
    assert "ls -l /tmp/a.sif" in str(said.fix)
    assert f"{errors}:2: {text.strip()}" in said.evidence_lines
    assert "which the log has" not in str(said.evidence_lines)
    gone = explain(paths, replace(job, error=str(tmp_path / "gone")), FAILED)
    assert gone.id == explain(paths, job, FAILED).id


def test_an_image_on_this_machine_alone(tmp_path: Path) -> None:
    text = "FATAL:   could not open image /tmp/a.sif: no such file or directory\n"
    paths, job = made(tmp_path, text)
    assert "ls -l /tmp/a.sif" in str(explain(paths, job, FAILED).fix)
    assert "a folder that the nodes share" in str(explain(paths, job, FAILED).steps)


def test_who_cancelled_is_said(tmp_path: Path) -> None:
    run = made(tmp_path, "")
    for uid, who in ((os.getuid(), "by yourself"), (4711, "by user 4711")):
        said = explain(*run, Status(JobState.CANCELLED, f"by {uid}"))
        assert f"the job was cancelled {who}" in said.what


def test_a_package_for_cuda_is_not_offered_for_an_image_for_cpus(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "", (0, 1.0, "ModuleNotFoundError: No module named 'torchvision'"))
    for image, offered in (("cpu.sif", False), ("gpu.sif", True)):
        said = explain(paths, replace(job, typed=CommandLine(), image=image), FAILED)
        assert ("runner build" in str(said.fix)) is offered, said


@pytest.mark.parametrize(
    ("end", "name"),
    [
        ("", "disk-full"),
        ("0@n0 | RuntimeError: shapes do not fit\n", "rank-exception"),
        ("0@n0 | OSError\nsrun: error: n0: task 0: Exited with exit code 1\n", "disk-full"),
        ("srun: error: n0: task 0: Killed\n", "rank-killed"),
    ],
)
def test_ranks_that_trained_and_could_record_nothing_had_no_space(
    tmp_path: Path, end: str, name: str
) -> None:
    text = "0@n0 | runner: one world of 2 ranks (Horovod)\n0@n0 |   step 26/180  loss 1.1894\n"
    assert explained(tmp_path, text + end).id == name


def test_a_full_disk_is_told_where_the_exit_code_was_lost_too(tmp_path: Path) -> None:
    run = made(tmp_path, "0@n0 |   step 26/180  loss 1.1894\n")
    assert explain(*run, Status(JobState.FAILED)).id == "disk-full"
