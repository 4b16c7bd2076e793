"""The matrix: its cells, what a log means, and when a verdict is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from containers import lockfile
from tests.matrix import cells, outcome, verdict
from tests.matrix.cells import Cell
from tests.matrix.images import kinds
from tests.matrix.outcome import Outcome
from tests.matrix.verdict import Verdict

CELL = Cell("trixie", "mpich", "mpi", "pmi2", "srun")
WORKS = Verdict(True, (), (), ("MPIR_CVAR_CH4_NETMOD=ofi",))
ALONE = (
    "the MPI in x.sif speaks PMIx, and srun --mpi=pmi2 offers PMI-2: every rank would be alone "
    "(world size 1)"
)
REFUSED = Verdict(False, (ALONE,), ("--mpi pmix",), (), ("mpi-type-mismatch",))


def world(hosts: str, size: int = 4, total: int = 10) -> str:
    """Return the lines of four ranks on these hosts."""
    return "".join(
        f"{rank}@{host} | world size={size} rank={rank} local=0 host={host} sum={total}\n"
        for rank, host in enumerate(hosts.split())
    )


def test_every_combination_is_a_cell_with_a_name_of_its_own() -> None:
    found = cells.cells()
    assert len(found) == 3 * 4 * 2 * 3 * 3
    assert [cells.named(cell.name) for cell in found] == found
    assert len(cells.cells(["trixie"])) == 72


def test_a_cell_is_asked_for_with_options() -> None:
    options = CELL.options("/images/m.sif")
    assert "--image=/images/m.sif" in options
    assert {"--nodes=2", "--ntasks-per-node=2", "--mpi=pmi2", "--launcher=srun"} <= set(options)


@pytest.mark.parametrize(
    ("code", "log", "kind"),
    [
        (0, world("n1 n1 n2 n2"), outcome.WORLD),
        (0, world("n1 n1 n1 n1"), outcome.ONE_NODE),
        (0, world("n1 n1 n2 n2", size=1, total=1), outcome.SILENT),
        (0, world("n1 n1 n2"), outcome.SILENT),
        (0, world("n1 n1 n2 n2", total=9), outcome.SILENT),
        (0, "", outcome.SILENT),
        (82, "runner: world-size mismatch on rank 0@n1: 4 tasks", outcome.ALONE),
        (82, "runner: no process group on rank 2@n2: it exited in hvd.init()", outcome.NO_WORLD),
        (1, "srun: error: Invalid MPI type 'pmix', --mpi=list for types", outcome.NO_TYPE),
        (1, "ValueError: MPI support has not been built.", outcome.NO_MPI),
        (1, "Unknown MPI implementation given in output of mpirun", outcome.UNKNOWN_MPI),
        (1, "Traceback", outcome.OTHER),
        (124, world("n1 n1 n2 n2"), outcome.HANG),
        (83, "", outcome.HANG),
    ],
)
def test_what_a_job_was(code: int, log: str, kind: str) -> None:
    assert outcome.classify(code, log, 1.0).kind == kind


MPI = {"kind": "launch", "text": "runner launch --mpi pmix t", "options": [["mpi", "pmix"]]}


def test_a_verdict_is_read_from_the_plan() -> None:
    refused = {"id": "mpi-type-mismatch", "severity": "failure", "what": ALONE, "remedies": [MPI]}
    warned = {"id": "gpus-idle", "severity": "warning", "what": "idle", "remedies": []}
    plan = {
        "works": False,
        "diagnoses": [refused, warned],
        "variables": [{"name": "A", "value": "1"}],
    }
    assert verdict.read(plan) == replace(REFUSED, settings=("A=1",))


@pytest.mark.parametrize(
    ("said", "kind", "agrees"),
    [
        (WORKS, outcome.WORLD, True),
        (WORKS, outcome.ALONE, False),
        (WORKS, outcome.HANG, False),
        (REFUSED, outcome.ALONE, True),
        (REFUSED, outcome.NO_WORLD, True),
        (REFUSED, outcome.WORLD, False),
        (REFUSED, outcome.SILENT, False),
        (REFUSED, outcome.HANG, False),
        (REFUSED, outcome.OTHER, False),
        (Verdict(False, ("unforeseen",), (), (), ("one-machine",)), outcome.ALONE, False),
    ],
)
def test_when_a_verdict_is_right(said: Verdict, kind: str, agrees: bool) -> None:
    assert (verdict.disagreement(said, Outcome(kind, "", 1.0)) == "") is agrees


def test_each_image_has_a_file_of_its_own_named_by_what_it_is_made_of() -> None:
    names = {kinds.file_name(kind) for kind in kinds.KINDS.values()}
    assert len(names) == len(kinds.KINDS)
    wheels = {kinds.compiled(kind) for kind in kinds.KINDS.values()}
    assert len(wheels) == len(kinds.KINDS)
    assert set(cells.IMAGES) == {"openmpi4", *kinds.KINDS}


def test_the_images_take_their_packages_from_the_lock_of_the_cpu_image() -> None:
    locked = {pin.name for pin in lockfile.read(kinds.LOCK)}
    assert set(kinds.WANTED.split("|")) <= locked
