"""The short form of the matrix in docs: all generations of Slurm in one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from . import outcome
from .cells import IMAGES, RELEASES
from .launch import Result

FILE = Path(__file__).parents[2] / "docs" / "concepts" / "worlds.md"
PLACE = re.compile(r"(?<=<!-- matrix -->\n).*?(?=<!-- end of matrix -->)", re.DOTALL)
# Title; controller, launcher, and srun's --mpi= where it matters.
COLUMNS = (
    ("MPI, `srun --mpi=pmix`", "mpi", "srun", "pmix"),
    ("`--mpi=pmi2`", "mpi", "srun", "pmi2"),
    ("`--mpi=none`", "mpi", "srun", "none"),
    ("MPI, host's `mpirun`", "mpi", "mpirun", ""),
    ("Gloo, `srun`", "gloo", "srun", "none"),
    ("Gloo, host's `mpirun`", "gloo", "mpirun", ""),
)


def render(results: Sequence[Result]) -> str:
    """One row for each image, one column for each way to start it."""
    titles = " | ".join(title for title, *_ in COLUMNS)
    lines = [f"| image | {titles} |", f"|{'---|' * (len(COLUMNS) + 1)}"]
    for image, name in IMAGES.items():
        words = [_word(results, image, *column[1:]) for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def _word(results: Sequence[Result], image: str, controller: str, launcher: str, mpi: str) -> str:
    """`yes`, `-`, or with which versions of Slurm it works."""
    wanted = (image, controller, launcher)
    there, works = [], []
    for release, slurm in RELEASES.items():
        kinds = {
            result.real.kind
            for result in results
            if (result.cell.image, result.cell.controller, result.cell.launcher) == wanted
            and result.cell.release == release
            and (not mpi or result.cell.mpi == mpi)
        }
        there += [slurm] if kinds else []
        works += [slurm] if kinds == {outcome.WORLD} else []
    if not there:
        return "not run"
    return "yes" if works == there else ", ".join(works) or "-"


def update(text: str, results: Sequence[Result]) -> str:
    """Return the page's text with the table in its place."""
    return PLACE.sub(lambda _: render(results), text)
