"""From submit to the first training step, against a hand-written job of the same trainer."""

from __future__ import annotations

from statistics import median

from tests.cluster.state import USER

from . import cluster
from .report import Part, Row, compared, row

TITLE = "From submit to the end of the first training step: torch_mnist on two nodes"
ROUNDS = 6
HAND = "sbatch, srun --mpi=pmix apptainer exec"
AIM = "<= 1.02"
FOLDER = f"/scratch/{USER}"


Times = dict[str, list[float]]


def measure() -> Part:
    """Measure. Raises BenchError."""
    cluster.require_image()
    arguments = ["--image", cluster.IMAGE, "--rounds", str(ROUNDS), "--folder", FOLDER]
    found = cluster.login_program("first_step", *arguments)
    hand, mpi, gloo = (by_part(found[case]) for case in ("hand", "mpi", "gloo"))
    return Part(TITLE, rows(hand, mpi, gloo), found, (added(hand, mpi),))


def by_part(runs: list[dict[str, float]]) -> Times:
    """The seconds of all runs of a case: in all, and for each part of the way."""
    return {
        "total": [run["total"] for run in runs],
        "submit": [run["submit"] for run in runs],
        "before": [run["total"] - run["trainer"] for run in runs],
    }


def rows(hand: Times, mpi: Times, gloo: Times) -> tuple[Row, ...]:
    """The table; what comes before the trainer varies less than its imports do."""
    return (
        row(HAND, hand["total"], "s"),
        compared("runner launch --controller mpi", mpi["total"], "s", HAND, hand["total"], AIM),
        compared("runner launch --controller gloo", gloo["total"], "s", HAND, hand["total"], AIM),
        row("by hand: until sbatch returns", hand["submit"], "s"),
        row("runner (mpi): until it returns", mpi["submit"], "s"),
        row("by hand: until the trainer starts", hand["before"], "s"),
        row("runner (mpi): until the trainer starts", mpi["before"], "s"),
    )


def added(hand: Times, mpi: Times) -> str:
    """What runner itself costs; the trainer is the same, so its share can be left out."""
    more = median(mpi["before"]) - median(hand["before"])
    share = more / median(hand["total"])
    return f"Until the trainer starts runner takes {more:+.2f} s, {share:+.1%} of the whole way."
