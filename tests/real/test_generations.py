"""Other generations of Slurm than the default one: a job of two nodes on each, and its answers.

Their root file systems are built on first use (about a minute each).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .beside import cluster
from .conftest import Login, ended, on_cluster, succeeded

pytestmark = pytest.mark.slow
SAY = """
import horovod.torch as hvd
hvd.init()
print("rank", hvd.rank(), "of", hvd.size(), flush=True)
hvd.shutdown()
"""


def launch(login: Login, controller: str) -> list[str]:
    """What the ranks of a job of two nodes print, sorted."""
    job = ("--nodes", "2", "--ntasks-per-node", "1", "--controller", controller)
    done = succeeded(login.launch(*job, "--follow", "--all", "say.py"))
    return sorted(re.findall(r"\d@n\d \| (rank .*)", done.stdout))


@dataclass(frozen=True)
class Generation:
    """A Debian release, its Slurm, and the kinds of MPI that this Slurm starts."""

    release: str
    slurm: str
    mpi_types: frozenset[str]


GENERATIONS = (
    Generation("bookworm", "22.05", frozenset({"pmix", "pmi2", "none"})),
    Generation("unstable", "26.05", frozenset({"pmi2", "none"})),
)


@pytest.fixture(params=GENERATIONS, ids=lambda generation: generation.release)
def generation(request: pytest.FixtureRequest) -> Iterator[Generation]:
    """A cluster of each generation; all commands go there meanwhile."""
    found: Generation = request.param
    with cluster("--release", found.release):
        yield found


def test_two_ranks_on_another_generation(generation: Generation, login: Login) -> None:
    """MPI works where Slurm has PMIx; Debian's 26.05 is built without, and the plan says so."""
    assert f"slurm-wlm {generation.slurm}." in login.sh("sinfo -V")
    listed = {line.strip() for line in login.sh("srun --mpi=list 2>&1").splitlines()}
    assert listed & {"pmix", "pmi2", "none"} == generation.mpi_types
    login.write("say.py", SAY)
    assert launch(login, "gloo") == ["rank 0 of 2", "rank 1 of 2"]
    if "pmix" in generation.mpi_types:
        assert launch(login, "mpi") == ["rank 0 of 2", "rank 1 of 2"]
    else:
        done = login.launch("--nodes", "2", "--controller", "mpi", "say.py")
        ended(done, 80, "this Slurm has no --mpi=pmix")
    sees_the_queue(login)


def sees_the_queue(login: Login) -> None:
    """All that is told of a job comes from squeue's fields, whose names are the same in each."""
    later = ("--time", "5", "--parsable", "--sbatch-arg=--begin=now+1hour")
    id = login.launch(*later, "say.py").stdout.strip()
    first, *_, last = login.told("list")
    assert (first["nodes"], first["state"]) == ("n[1-2]", "COMPLETED")
    assert first["elapsed"] < 300
    assert (last["state"], last["reason"]) == ("PENDING", "BeginTime")
    assert last["start_expected"] > last["submitted"]
    shown = login.run("timeout", "-s", "INT", "3", "runner", "logs", "-f", id).stderr
    assert "pending (the time at which it may begin has not come); none before it" in shown
    assert login.runner("cancel", id).returncode == 0


def test_the_default_generation() -> None:
    assert "slurm-wlm 24.11." in on_cluster(["sinfo", "-V"]).stdout
