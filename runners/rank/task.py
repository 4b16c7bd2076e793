"""Who am I: the task's place in the job, read from the environment that the launcher made."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass


class TaskError(Exception):
    """The environment does not say which task this is."""


@dataclass(frozen=True)
class Task:
    """One task of the job.

    `rank` and `size` are global (0-based, count), `local_*` count tasks of this node, `cross_*`
    count the nodes that have a task with this local rank. `first_host` runs rank 0; `job` names
    the job step, alike on all tasks.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str
    first_host: str
    job: str

    @property
    def name(self) -> str:
        """`rank@host`, as it stands in logs and messages."""
        return f"{self.rank}@{self.host}"

    @property
    def one_host(self) -> bool:
        """Whether all tasks are on this host."""
        return self.local_size == self.size


def read(launcher: str, env: Mapping[str, str]) -> Task:
    """Return this process's task as `launcher` (srun, mpirun or local) describes it.

    Raises TaskError when a variable that the launcher always sets is absent.
    """
    try:
        return READERS[launcher](env)
    except KeyError as missing:
        raise TaskError(
            f"{missing.args[0]} is not in the environment: {launcher} did not start this process"
        ) from missing


def from_srun(env: Mapping[str, str]) -> Task:
    """Read Slurm's step variables (srun(1), OUTPUT ENVIRONMENT VARIABLES)."""
    counts = expand_counts(env.get("SLURM_STEP_TASKS_PER_NODE") or env["SLURM_TASKS_PER_NODE"])
    node, local_rank = int(env["SLURM_NODEID"]), int(env["SLURM_LOCALID"])
    return Task(
        rank=int(env["SLURM_PROCID"]),
        size=int(env.get("SLURM_STEP_NUM_TASKS") or env["SLURM_NTASKS"]),
        local_rank=local_rank,
        local_size=counts[node],
        cross_rank=sum(count > local_rank for count in counts[:node]),
        cross_size=sum(count > local_rank for count in counts),
        host=env.get("SLURMD_NODENAME") or socket.gethostname(),
        first_host=first_host(env.get("SLURM_STEP_NODELIST") or env["SLURM_JOB_NODELIST"]),
        job=f"{env['SLURM_JOB_ID']}.{env.get('SLURM_STEP_ID', '0')}",
    )


def from_mpirun(env: Mapping[str, str]) -> Task:
    """Read what Open MPI's mpirun sets for each process (Open MPI FAQ, "environment variables")."""
    size, local_size = int(env["OMPI_COMM_WORLD_SIZE"]), int(env["OMPI_COMM_WORLD_LOCAL_SIZE"])
    rank = int(env["OMPI_COMM_WORLD_RANK"])
    return Task(
        rank=rank,
        size=size,
        local_rank=int(env["OMPI_COMM_WORLD_LOCAL_RANK"]),
        local_size=local_size,
        cross_rank=rank // local_size,
        cross_size=size // local_size,
        host=socket.gethostname(),
        first_host=socket.gethostname(),
        job=env.get("PMIX_NAMESPACE", "mpirun"),
    )


def from_local(env: Mapping[str, str]) -> Task:
    """Read what `local.py` sets: all tasks on this host."""
    rank, size = int(env["RUNNER_TASK_RANK"]), int(env["RUNNER_TASK_COUNT"])
    host = socket.gethostname()
    return Task(rank, size, rank, size, 0, 1, host, host, env["RUNNER_TASK_JOB"])


READERS = {"srun": from_srun, "mpirun": from_mpirun, "local": from_local}


def expand_counts(text: str) -> tuple[int, ...]:
    """Expand Slurm's tasks per node: `2(x3),1` is (2, 2, 2, 1)."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise TaskError(f"tasks per node {text!r} is not in Slurm's form, such as 2(x3),1")
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    return tuple(counts)


def first_host(nodelist: str) -> str:
    """Return the first name of a Slurm node list: `n[03-05,7],m1` gives `n03`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodelist)
    assert first is not None  # the pattern matches the empty string too
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first.group())
