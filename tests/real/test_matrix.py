"""A part of the matrix on the default cluster: the plan's verdict and what really happens.

The whole: make test-matrix.
"""

from __future__ import annotations

import pytest

from tests.cluster.state import State
from tests.matrix import cells, outcome
from tests.matrix.images import bring
from tests.matrix.launch import Cluster

pytestmark = pytest.mark.slow

WORKS = (
    "trixie-openmpi4-mpi-pmix-srun",
    "trixie-openmpi4-gloo-none-mpirun",
    "trixie-openmpi5-mpi-pmix-srun",
    "trixie-openmpi5-mpi-none-mpirun",
    "trixie-mpich-mpi-pmi2-srun",
    "trixie-nompi-gloo-pmi2-srun",
    "trixie-openmpi4-gloo-none-horovodrun",
    "trixie-openmpi5-mpi-none-horovodrun",
)
REFUSED = (
    "trixie-openmpi4-mpi-none-srun",
    "trixie-openmpi4-mpi-none-mpirun",
    "trixie-openmpi5-mpi-pmi2-srun",
    "trixie-mpich-mpi-pmix-srun",
    "trixie-nompi-mpi-pmix-srun",
    "trixie-mpich-mpi-none-horovodrun",
)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """The cluster with all images; they are made when they are not there, which takes minutes."""
    state = State.locate()
    return Cluster(state, bring.bring(state, bring.NAMES))


@pytest.mark.parametrize("name", WORKS)
def test_what_is_planned_to_work_does(cluster: Cluster, name: str) -> None:
    result = cluster.run(cells.named(name))
    assert result.verdict.works, result.verdict.reasons
    assert result.real.kind == outcome.WORLD, result.real.evidence


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_fails_for_that_reason(cluster: Cluster, name: str) -> None:
    result = cluster.run(cells.named(name))
    assert not result.verdict.works
    assert result.disagreement == "", result.real.evidence


@pytest.mark.parametrize("name", [REFUSED[2], REFUSED[5]])
def test_what_is_offered_instead_works(cluster: Cluster, name: str) -> None:
    result = cluster.remedy(cells.named(name))
    assert result.real.kind == outcome.WORLD, result.real.evidence
