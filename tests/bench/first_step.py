"""From submit to the first training step, against a hand-written job of the same trainer.

By hand it is `srun --mpi=pmix apptainer exec`: without a launcher Gloo has nowhere to meet.
"""

from __future__ import annotations

from statistics import median

from tests.cluster.state import USER

from . import cluster
from .report import Part, Row, compared, row

TITLE = "From submit to the end of the first training step: torch_mnist on two nodes"
ROUNDS = 6
HAND = "by hand (sbatch, srun)"
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
    """The seconds of all runs of a case; `before` is the part before the trainer, less the wait."""
    return {
        "total": [run["total"] for run in runs],
        "active": [run["total"] - run["wait"] for run in runs],
        "before": [run["total"] - run["wait"] - run["trainer"] for run in runs],
    }


def rows(hand: Times, mpi: Times, gloo: Times) -> tuple[Row, ...]:
    """The table. Slurm looks into its queue once a second, which is chance: so both ways."""
    found = []
    for part, label in (("total", ""), ("active", ", without Slurm's wait")):
        reference = HAND + label
        found.append(row(reference, hand[part], "s"))
        for name, times in (("mpi", mpi), ("gloo", gloo)):
            what = f"runner launch --controller {name}{label}"
            found.append(compared(what, times[part], "s", reference, hand[part], AIM))
    return tuple(found)


def added(hand: Times, mpi: Times) -> str:
    """What runner itself costs at most: what its shim imports, the trainer finds imported."""
    more = median(mpi["before"]) - median(hand["before"])
    share = more / median(hand["active"])
    return (
        f"Until the trainer starts, runner takes {more:+.2f} s: {share:+.1%} of the way by hand, "
        "less what the trainer need not import any more."
    )
