"""From submit to the first training step, against a hand-written job of the same trainer."""

from __future__ import annotations

from tests.cluster.state import USER

from . import cluster
from .report import Part, Row, compared, row

TITLE = "From submit to the end of the first training step: torch_mnist on two nodes"
ROUNDS = 7
HAND = "sbatch, srun --mpi=pmix apptainer exec"
AIM = "<= 1.02"
FOLDER = f"/scratch/{USER}"


def measure() -> Part:
    """Measure. Raises BenchError."""
    cluster.require_image()
    arguments = ["--image", cluster.IMAGE, "--rounds", str(ROUNDS), "--folder", FOLDER]
    found = cluster.login_program("first_step", *arguments)
    return Part(TITLE, rows(found), samples=found)


def rows(found: dict[str, list[dict[str, float]]]) -> tuple[Row, ...]:
    """The table of what the program on the login node measured."""
    hand, mpi, gloo = (
        {part: [run[part] for run in found[case]] for part in ("total", "submit", "trainer")}
        for case in ("hand", "mpi", "gloo")
    )
    return (
        row(HAND, hand["total"], "s"),
        compared("runner launch --controller mpi", mpi["total"], "s", HAND, hand["total"], AIM),
        compared("runner launch --controller gloo", gloo["total"], "s", HAND, hand["total"], AIM),
        row("of it, until sbatch has ended", hand["submit"], "s"),
        row("of it, until runner launch has ended", mpi["submit"], "s"),
        row("of it, the trainer itself (by hand)", hand["trainer"], "s"),
        row("of it, the trainer itself (runner, mpi)", mpi["trainer"], "s"),
    )
