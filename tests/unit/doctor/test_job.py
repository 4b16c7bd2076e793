"""The doctor's job: what the ranks measure, and the findings about it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from runners.contract.interfaces import Interface
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.core.progress import Listener
from runners.doctor import trial_job
from runners.doctor.checks import job, world
from runners.doctor.finding import FAILURE, OK, WARNING, Finding
from runners.doctor.trial_job import Outcome
from runners.injob import trial as injob_trial

from .test_checks import named, states, told
from .trial import ETH, IB, VIEW, Record, ranks, record

# Measuring


class Sums:
    """Sums as Horovod would, after some wrong ones."""

    def __init__(self, wrong: int = 0) -> None:
        self.wrong = wrong

    def summing(self, count: int, name: str) -> Any:
        """Return the action."""

        def act() -> float:
            self.wrong -= 1
            return 10.0 if self.wrong < 0 else 9.0

        return act


def test_bandwidth_of_four_ranks() -> None:
    allreduce = injob_trial.measure(Sums(), 4)
    per_second = allreduce["bytes"] / allreduce["seconds"]
    assert allreduce["bus"] == pytest.approx(per_second * 1.5)
    assert allreduce["right"]


@pytest.mark.parametrize("wrong", [1, 3])
def test_wrong_sums_are_seen(wrong: int) -> None:
    assert not injob_trial.measure(Sums(wrong), 4)["right"]


# The world


def test_a_good_world() -> None:
    found = world.check(ranks(), 4)
    assert states(found) == {"ranks": OK, "places": OK, "image": OK}
    assert named(found, "image").what == "one digest on 2 nodes (sha256 of every byte)"


ALONE = [record(0, size=1, local_size=1, cross_size=1) for _ in range(4)]
SWAPPED = [*ranks()[:3], record(3, local_rank=0)]
# torch.distributed has no cross ranks.
WITHOUT_CROSS = [
    {name: value for name, value in rank.items() if not name.startswith("cross")}
    for rank in ranks()
]
UNEVEN = [record(0, size=3), record(1, size=3, cross_size=1), record(2, size=3, local_size=1)]


@pytest.mark.parametrize(
    ("seen", "started", "name", "state"),
    [
        (ALONE, 4, "ranks", FAILURE),
        (ranks()[:3], 4, "ranks", FAILURE),
        (SWAPPED, 4, "places", FAILURE),
        ([record(0), record(1), record(2, cross_rank=0), record(3)], 4, "places", FAILURE),
        (UNEVEN, 3, "places", OK),
        (WITHOUT_CROSS, 4, "places", OK),
        ([*WITHOUT_CROSS[:3], {**WITHOUT_CROSS[3], "local_rank": 0}], 4, "places", FAILURE),
        ([*ranks()[:2], record(2, image={**VIEW, "sha256": "cd"})], 4, "image", FAILURE),
        (ranks(gpu="GPU-1"), 4, "GPUs", FAILURE),
        ([record(rank, gpu=f"GPU-{rank}") for rank in range(4)], 4, "GPUs", OK),
        ([record(0, image={"problem": "Permission denied"})], 4, "image", WARNING),
    ],
)
def test_worlds(seen: list[Record], started: int, name: str, state: str) -> None:
    found = named(world.check(seen, started), name)
    assert found.severity == state
    assert bool(found.remedies) == (state != OK)


# CPUs


@pytest.mark.parametrize(
    ("seen", "wanted", "says"),
    [
        (ranks(), {"affinity": OK}, "no two ranks"),
        (ranks(cpus=[0, 1, 2, 3]), {"affinity": WARNING}, "not bound"),
        ([record(0), record(1, cpus=[1, 2])], {"affinity": WARNING}, "some CPUs in common"),
        (ranks(threads=8), {"affinity": OK, "threads": WARNING}, "no two ranks"),
    ],
)
def test_affinity(seen: list[Record], wanted: dict[str, str], says: str) -> None:
    found = world.cpus(seen)
    assert states(found) == wanted
    assert says in found[0].what


# The whole job

ALLREDUCE = {"bytes": 2**26, "seconds": 0.1, "bus": 1.5e9, "right": True}


def outcome(folder: Path, state: JobState, result: Record | None = None, log: str = "") -> Outcome:
    """Return what became of a job."""
    made = Job("7", "doctor", SchedulerName.SLURM, str(folder / "job.log"), 0.0)
    return Outcome(JobPaths(folder), made, Status(state, ""), result, log)


def check(folder: Path, **changes: Any) -> list[Finding]:
    """Return the findings of a job that ended well."""
    result = {"framework": "torch", "started": 4, "allreduce": ALLREDUCE, "ranks": ranks(**changes)}
    return job.check(outcome(folder, JobState.COMPLETED, result))


def test_a_good_job_is_all_ok(tmp_path: Path) -> None:
    found = check(tmp_path)
    assert {finding.severity for finding in found} == {OK}
    assert found[0].what == "job 7 ran: torch on cpu, controller gloo"


def test_the_bandwidth_is_one_number(tmp_path: Path) -> None:
    finding = named(check(tmp_path), "allreduce")
    assert finding.what == "1500 MB/s bus bandwidth at 64 MiB"
    assert finding.evidence == "median 0.100 s; bus = size / time * 2 (n - 1) / n"


def test_wrong_sums_are_a_failure(tmp_path: Path) -> None:
    allreduce = {**ALLREDUCE, "right": False}
    result = {"framework": "torch", "started": 4, "allreduce": allreduce, "ranks": ranks()}
    finding = named(job.check(outcome(tmp_path, JobState.COMPLETED, result)), "allreduce")
    assert (finding.severity, bool(finding.remedies)) == (FAILURE, True)


def test_what_is_wrong_on_single_nodes(tmp_path: Path) -> None:
    dead = asdict(Interface("eth9", "ethernet", True, False, 0, ("192.168.1.1",)))
    told = {"HOROVOD_CONTROLLER": "gloo", "NCCL_SOCKET_IFNAME": "ib7"}
    bad = {"locked_memory": 65536, "shared_memory": 9, "variables": told, "ports": [IB]}
    found = check(tmp_path, interfaces=[ETH, dead], **bad)
    by_name = [(item.name, item.severity) for item in found]
    for name in ("dead interfaces", "NCCL_SOCKET_IFNAME", "locked memory", "shared memory"):
        assert by_name.count((name, WARNING)) == 2, "once for each node"


def test_a_job_that_waits_says_how_to_come_back(tmp_path: Path) -> None:
    (found,) = job.check(outcome(tmp_path, JobState.PENDING))
    assert found.severity == WARNING
    assert f"runner doctor --run {tmp_path}" in told(found)


@pytest.mark.parametrize("text", ["[1, 2]", "{", '{"accuracy": 0.9}'])
def test_a_result_that_is_not_the_trials_is_named(tmp_path: Path, text: str) -> None:
    made = outcome(tmp_path, JobState.COMPLETED)
    made.paths.result.write_text(text)
    made.paths.exit.write_text('{"exit_code": 0}')
    (found,) = job.check(trial_job.wait(made.paths, made.job, 0.0, Listener()))
    assert found.severity == FAILURE
    assert str(made.paths.result) in found.evidence


def test_a_job_that_failed_shows_its_log(tmp_path: Path) -> None:
    (found,) = job.check(outcome(tmp_path, JobState.FAILED, log="one\nValueError: no\n"))
    assert found.severity == FAILURE
    assert "ValueError: no" in found.evidence


def test_a_job_that_fails_at_its_end_is_a_failure(tmp_path: Path) -> None:
    result = {"framework": "torch", "started": 4, "allreduce": ALLREDUCE, "ranks": ranks()}
    found = job.check(outcome(tmp_path, JobState.FAILED, result))
    assert named(found, "trial").severity == FAILURE
    assert named(found, "ranks").severity == OK


def test_an_image_without_horovod(tmp_path: Path) -> None:
    for framework, wanted in (("torch", "Horovod"), ("torch.distributed", "torch")):
        text = json.dumps({"problems": {framework: "No module named torch"}})
        (tmp_path / "rank-1@n1.json").write_text(text)
        (found,) = job.check(outcome(tmp_path, JobState.COMPLETED))
        assert found.severity == FAILURE
        assert f"has no {wanted} that" in found.what
        assert "No module named torch" in found.evidence


def test_the_job_changes_no_variable() -> None:
    assert set(trial_job.PRESET.values) == {"time"}
    assert trial_job.TRAINER.module == "injob.injob.trial"
