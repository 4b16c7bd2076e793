"""The doctor's job: what the ranks measure, and the findings about it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.core.progress import Listener
from runners.doctor import trial
from runners.doctor.checks import job, transport, world
from runners.doctor.checks.transport import TransportLog
from runners.doctor.finding import FAILURE, OK, WARNING, Finding
from runners.doctor.trial import Outcome
from runners.injob import trial as injob_trial
from runners.injob.interfaces import Interface

from ..tables import each
from .test_checks import named, states, told
from .trial import ETH, HSN, IB, IPOIB, VIEW, Record, ranks, record

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
    row = injob_trial.result(16 * 2**20, 0.1, 4, right=True)
    assert row["algorithm"] == pytest.approx(16 * 2**20 / 0.1)
    assert row["bus"] == pytest.approx(row["algorithm"] * 1.5)
    table = injob_trial.measure(Sums(), 4)
    assert [row["bytes"] for row in table] == [65536, 2**20, 16 * 2**20]
    assert all(row["right"] for row in table)


def test_wrong_sums_are_seen() -> None:
    assert not injob_trial.measure(Sums(wrong=1), 4)[0]["right"]


# The world


def test_a_good_world() -> None:
    found = world.check(ranks(), 4)
    assert states(found) == {"ranks": OK, "places": OK, "image": OK}
    assert named(found, "image").says == "one digest on 2 nodes (sha256 of every byte)"


ALONE = [record(0, size=1, local_size=1, cross_size=1) for _ in range(4)]
SWAPPED = [*ranks()[:3], record(3, local_rank=0)]
# torch.distributed has no cross ranks.
WITHOUT_CROSS = [
    {name: value for name, value in one.items() if not name.startswith("cross")} for one in ranks()
]
UNEVEN = [record(0, size=3), record(1, size=3, cross_size=1), record(2, size=3, local_size=1)]


@each(
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
)
def test_worlds(seen: list[Record], started: int, name: str, state: str) -> None:
    found = named(world.check(seen, started), name)
    assert found.state == state
    assert bool(found.fix) == (state != OK)


# CPUs


@each(
    (ranks(), {"affinity": OK}, "no two ranks"),
    (ranks(cpus=[0, 1, 2, 3]), {"affinity": WARNING}, "not bound"),
    ([record(0), record(1, cpus=[1, 2])], {"affinity": WARNING}, "some CPUs in common"),
    (ranks(threads=8), {"affinity": OK, "threads": WARNING}, "no two ranks"),
)
def test_affinity(seen: list[Record], wanted: dict[str, str], says: str) -> None:
    found = world.cpus(seen)
    assert states(found) == wanted
    assert says in found[0].says


# The network

TABLE = [{"bytes": 2**24, "seconds": 0.1, "algorithm": 1e9, "bus": 1.5e9, "right": True}]
TABLE[0]["moved"] = 10**8
NCCL_TCP = TransportLog("NCCL", {"TCP": 4})
NCCL_IB = TransportLog("NCCL", {"RDMA (IB)": 4, "peer to peer": 9})
MPI_TCP = TransportLog("Open MPI", {"TCP": 2, "memory (vader)": 2})
OVER_IB = {"eth0": 1000, "mlx5_0:1": 10**8}
GLOO = TransportLog()


@each(
    (ranks(), GLOO, OK, "TCP over eth0", ""),
    (ranks(), MPI_TCP, OK, "TCP over eth0, by Open MPI's own words", ""),
    (ranks(ports=[IB]), NCCL_IB, OK, "RDMA, by NCCL's own words", ""),
    (ranks(ports=[IB], sent=OVER_IB), GLOO, OK, "RDMA", ""),
    (ranks(interfaces=[ETH, HSN], sent={"eth0": 2 * 10**6}), GLOO, OK, "RDMA past the kernel", ""),
    (ranks(ports=[IB]), NCCL_TCP, WARNING, "while every node has infiniband", "NCCL_IB_HCA"),
    (ranks(ports=[IB]), MPI_TCP, WARNING, "while every node has infiniband", "--host-mpi"),
    (ranks(ports=[IB]), GLOO, WARNING, "while every node has infiniband", "--controller mpi"),
    (
        ranks(ports=[IB], interfaces=[ETH, IPOIB]),
        GLOO,
        WARNING,
        "TCP over eth0, while every node has infiniband",
        "--network-interfaces ib0",
    ),
    (
        ranks(ports=[IB], interfaces=[ETH, IPOIB], sent={"ib0": 10**8}),
        GLOO,
        OK,
        "TCP over ib0, on the fabric (infiniband)",
        "",
    ),
    (ranks(interfaces=[ETH, HSN]), NCCL_TCP, WARNING, "slingshot", "NCCL plugin"),
    ([*ranks(ports=[IB])[:2], *ranks()[2:]], NCCL_TCP, OK, "TCP over eth0", ""),
)
def test_the_network_used_against_the_one_there_is(
    seen: list[Record], log: TransportLog, state: str, says: str, fix: str
) -> None:
    found = named(transport.check({"ranks": seen, "bandwidth": TABLE}, log), "transport")
    assert found.state == state
    assert says in found.says
    assert fix in told(found)
    assert bool(found.fix) == bool(fix)
    assert "sent by n1: " in found.evidence


def test_one_node_needs_no_network() -> None:
    result = {"ranks": ranks()[:2], "bandwidth": TABLE}
    found = transport.check(result, GLOO)
    assert states(found) == {"transport": OK, "allreduce": OK}
    assert "one node" in found[0].says


def test_the_table_says_what_bus_bandwidth_is() -> None:
    small = {**TABLE[0], "bytes": 2**16, "seconds": 0.01, "bus": 5e8}
    found = transport.check({"ranks": ranks(), "bandwidth": [small, *TABLE]}, GLOO)
    finding = named(found, "allreduce")
    assert finding.says == "1500 MB/s bus bandwidth at 16 MiB"
    *lines, meaning = finding.evidence.splitlines()
    assert lines == [
        "   bytes   seconds  algorithm        bus",
        "   65536  0.010000  1000 MB/s   500 MB/s",
        "16777216  0.100000  1000 MB/s  1500 MB/s",
    ]
    assert "nccl-tests" in meaning


@each(({"right": False}, "allreduce", FAILURE), ({"bus": 1e6}, "speed", WARNING))
def test_what_is_wrong_with_the_sums(changes: Record, name: str, state: str) -> None:
    result = {"ranks": ranks(), "bandwidth": [{**TABLE[0], **changes}]}
    assert named(transport.check(result, GLOO), name).state == state


# The whole job


def outcome(folder: Path, state: JobState, result: Record | None = None, log: str = "") -> Outcome:
    """Return what became of a job."""
    made = Job("7", "doctor", SchedulerName.SLURM, str(folder / "job.log"), 0.0)
    return Outcome(JobPaths(folder), made, Status(state, ""), result, log)


def check(folder: Path, **changes: Any) -> list[Finding]:
    """Return the findings of a job that ended well."""
    result = {"framework": "torch", "started": 4, "bandwidth": TABLE, "ranks": ranks(**changes)}
    return job.check(outcome(folder, JobState.COMPLETED, result))


def test_a_good_job_is_all_ok(tmp_path: Path) -> None:
    found = check(tmp_path)
    assert {finding.state for finding in found} == {OK}
    assert found[0].says == "job 7 ran: torch on cpu, controller gloo"


def test_what_is_wrong_on_single_nodes(tmp_path: Path) -> None:
    dead = asdict(Interface("eth9", "ethernet", True, False, 0, ("192.168.1.1",)))
    told = {"HOROVOD_CONTROLLER": "gloo", "NCCL_SOCKET_IFNAME": "ib7"}
    bad = {"locked_memory": 65536, "shared_memory": 9, "variables": told, "ports": [IB]}
    found = check(tmp_path, interfaces=[ETH, dead], **bad)
    by_name = [(item.name, item.state) for item in found]
    for name in ("dead interfaces", "NCCL_SOCKET_IFNAME", "locked memory", "shared memory"):
        assert by_name.count((name, WARNING)) == 2, "once for each node"


def test_a_job_that_waits_says_how_to_come_back(tmp_path: Path) -> None:
    (found,) = job.check(outcome(tmp_path, JobState.PENDING))
    assert found.state == WARNING
    assert f"runner doctor --run {tmp_path}" in told(found)


@each("[1, 2]", "{", '{"accuracy": 0.9}')
def test_a_result_that_is_not_the_trials_is_named(tmp_path: Path, text: str) -> None:
    made = outcome(tmp_path, JobState.COMPLETED)
    made.paths.result.write_text(text)
    made.paths.exit.write_text('{"exit_code": 0}')
    (found,) = job.check(trial.wait(made.paths, made.job, 0.0, Listener()))
    assert found.state == FAILURE
    assert str(made.paths.result) in found.evidence


def test_a_job_that_failed_shows_its_log(tmp_path: Path) -> None:
    (found,) = job.check(outcome(tmp_path, JobState.FAILED, log="one\nValueError: no\n"))
    assert found.state == FAILURE
    assert "ValueError: no" in found.evidence


def test_a_job_that_fails_at_its_end_is_a_failure(tmp_path: Path) -> None:
    result = {"framework": "torch", "started": 4, "bandwidth": TABLE, "ranks": ranks()}
    found = job.check(outcome(tmp_path, JobState.FAILED, result))
    assert named(found, "trial").state == FAILURE
    assert named(found, "ranks").state == OK


def test_an_image_without_horovod(tmp_path: Path) -> None:
    for framework, wanted in (("torch", "Horovod"), ("torch.distributed", "torch")):
        text = json.dumps({"problems": {framework: "No module named torch"}})
        (tmp_path / "rank-1@n1.json").write_text(text)
        (found,) = job.check(outcome(tmp_path, JobState.COMPLETED))
        assert found.state == FAILURE
        assert f"has no {wanted} that" in found.says
        assert "No module named torch" in found.evidence


def test_the_jobs_variables_give_way_to_the_users() -> None:
    assert "NCCL_DEBUG=INFO" in trial.PRESET.values["env"]
    assert trial.TRAINER.module == "injob.trial"
