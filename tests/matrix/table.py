"""The results as JSON for programs, and as a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import outcome
from .cells import CONTROLLERS, IMAGES, LAUNCHERS, NODES, PER_NODE, RELEASES, TYPES, Cell
from .launch import Result
from .outcome import Outcome
from .verdict import Verdict

MARKS = {
    outcome.WORLD: "**works**",
    outcome.ALONE: "refused: alone",
    outcome.NO_WORLD: "refused: no world",
    outcome.NO_MPI: "refused: no MPI",
    outcome.UNKNOWN_MPI: "refused: unknown to horovodrun",
    outcome.NO_TYPE: "refused: no such type",
}
HEADER = """\
# What works with what

Written by `make test-matrix`. Each cell was planned (`runner plan`) and then really launched on
{nodes} nodes with {per_node} ranks each, the refused ones with `--force`; the word is what both
agree on:

| word | what happened |
|---|---|
| **works** | {ranks} ranks on {nodes} nodes formed one world and summed over it |
| refused: alone | each rank would have been a world of its own; the gate stopped it, exit code 82 |
| refused: no world | the ranks ended in `hvd.init()`, exit code 82 |
| refused: no MPI | Horovod says that it was built without |
| refused: unknown to horovodrun | it does not know this MPI's `mpirun` |
| refused: no such type | this Slurm's `srun` has no such `--mpi` |
| DISAGREES | plan and reality differ: a fault of ours |

`--mpi` is srun's; under the other launchers it has no effect, which the plan says.
"""


def to_json(results: Iterable[Result]) -> str:
    """One object for each cell."""
    return json.dumps([asdict(result) for result in results], indent=1)


def from_json(text: str) -> list[Result]:
    """The reverse."""
    return [_result(item) for item in json.loads(text)]


def _result(item: dict[str, dict[str, Any]]) -> Result:
    said = item["verdict"]
    for name in ("reasons", "remedies", "settings", "ids"):
        said[name] = tuple(said[name])
    return Result(Cell(**item["cell"]), Verdict(**said), Outcome(**item["real"]))


def offer(result: Result) -> str:
    """The cell's image, and the first remedy that the plan offers for it."""
    return f"{result.cell.image}: {result.verdict.remedies[0]}"


def render(results: Sequence[Result], remedies: Sequence[Result] = ()) -> str:
    """The table for the documentation."""
    found = {result.cell: result for result in results}
    parts = [HEADER.format(nodes=NODES, per_node=PER_NODE, ranks=NODES * PER_NODE)]
    for release, slurm in RELEASES.items():
        if any(cell.release == release for cell in found):
            rows = [_row(found, release, image, launcher) for image, launcher in _rows()]
            parts.append(f"\n## Slurm {slurm} (Debian {release})\n\n{_head()}\n" + "\n".join(rows))
    parts += [_settings(results), _summary(results)]
    if remedies:
        mended = sum(result.mends for result in remedies)
        parts.append(f"\n{len(remedies)} remedies were typed as offered; {mended} of them worked.")
    return "\n".join(parts) + "\n"


def _rows() -> list[tuple[str, str]]:
    return [(image, launcher) for image in IMAGES for launcher in LAUNCHERS]


def _columns() -> list[tuple[str, str]]:
    return [(controller, mpi) for controller in CONTROLLERS for mpi in TYPES]


def _head() -> str:
    names = [f"{controller}, `--mpi {mpi}`" for controller, mpi in _columns()]
    return f"| image | launcher | {' | '.join(names)} |\n|{'---|' * (len(names) + 2)}"


def _row(found: dict[Cell, Result], release: str, image: str, launcher: str) -> str:
    words = []
    for controller, mpi in _columns():
        result = found.get(Cell(release, image, controller, mpi, launcher))
        words.append(_word(result) if result else "not run")
    return f"| {IMAGES[image]} | {launcher} | {' | '.join(words)} |"


def _word(result: Result) -> str:
    if result.disagreement:
        return f"DISAGREES: {result.disagreement}"
    return MARKS[result.real.kind]


def _settings(results: Sequence[Result]) -> str:
    """What the plan sets for the cells that work with the controller MPI, by image."""
    lines = ["\n## Settings that the plan makes for MPI\n"]
    for image, title in IMAGES.items():
        made = {
            setting
            for result in results
            if result.verdict.works and result.cell.image == image
            for setting in result.verdict.settings
            if result.cell.controller == "mpi" and not setting.startswith("OMP_")
        }
        lines += (
            [f"- {title}: {', '.join(f'`{setting}`' for setting in sorted(made))}"] if made else []
        )
    return "\n".join(lines)


def _summary(results: Sequence[Result]) -> str:
    wrong = sum(1 for result in results if result.disagreement)
    slowest = max((result.real.seconds for result in results), default=0.0)
    return f"\n{len(results)} cells, {wrong} disagree; the slowest took {slowest:.0f} s."


def write(path: Path, text: str) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
