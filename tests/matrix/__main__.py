"""The matrix: python -m tests.matrix [--release R]... [--cell NAME]...; see --help."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from containers import image_catalogue
from tests.cluster.state import State

from . import cells, summary, table
from .cells import IMAGES, RELEASES, Cell
from .images import bring
from .launch import Cluster, Result

RESULTS = Path(__file__).with_name("RESULTS.md")
BUILD = image_catalogue.CHECKOUT / "build" / "matrix"


def parser() -> argparse.ArgumentParser:
    """All options."""
    made = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    made.add_argument("--release", action="append", choices=list(RELEASES), help="default: all")
    made.add_argument("--cell", action="append", metavar="NAME", help="these cells only")
    made.add_argument("--again", action="store_true", help="also those that have a result")
    made.add_argument("--table", action="store_true", help="only write the table again")
    return made


def cluster(release: str, images: Sequence[str]) -> Cluster:
    """Start the cluster of a release, with these images."""
    state = State.locate(str(State.locate().cache / f"matrix-{release}"))
    command = [sys.executable, "-m", "tests.cluster", "--state", str(state.root)]
    start = [*command, "up", "--nodes", str(cells.NODES), "--release", release]
    subprocess.run(start, cwd=image_catalogue.CHECKOUT, check=True)
    return Cluster(state, bring.bring(state, images))


def end(running: Cluster) -> None:
    """End a cluster; its files stay."""
    command = [sys.executable, "-m", "tests.cluster", "--state", str(running.state.root), "down"]
    subprocess.run(command, cwd=image_catalogue.CHECKOUT, check=True)


def run(release: str, wanted: Sequence[Cell], again: bool) -> None:
    """Run the cells of a release that have no result yet; each result is kept at once."""
    place = BUILD / f"{release}.json"
    done = {result.cell: result for result in kept(release)}
    todo = [cell for cell in wanted if again or cell not in done or done[cell].disagreement]
    if not todo:
        return
    needed = {cell.image for cell in todo}
    running = cluster(release, [image for image in IMAGES if image in needed])
    try:
        for cell in todo:
            done[cell] = running.run(cell)
            show(done[cell])
            table.write(place, table.to_json(done.values()))
        remedies(running, release, done.values())
    finally:
        end(running)


def remedies(running: Cluster, release: str, results: Iterable[Result]) -> None:
    """Type what is offered first instead of a refused cell, once for each offer of an image."""
    place = BUILD / f"{release}-remedies.json"
    tried = {table.offer(result): result for result in kept(place.stem) if result.mends}
    refused = [result for result in results if result.verdict.remedies]
    for result in refused:
        offer = table.offer(result)
        if offer not in tried and result.cell.image in running.images:
            tried[offer] = running.remedy(result.cell)
            show_remedy(tried[offer])
            table.write(place, table.to_json(tried.values()))


def kept(name: str) -> list[Result]:
    """The results of a release so far, or of its remedies."""
    place = BUILD / f"{name}.json"
    return table.from_json(place.read_text(encoding="utf-8")) if place.exists() else []


def show(result: Result) -> None:
    """One line for a cell."""
    words = result.disagreement or result.real.kind
    mark = "DISAGREES" if result.disagreement else "agrees"
    print(f"{mark:9} {result.cell.name:45} {result.real.seconds:6.1f} s  {words}", flush=True)


def show_remedy(result: Result) -> None:
    """One line for what was typed instead."""
    mark = "mends" if result.mends else "DOES NOT MEND"
    print(f"{mark:9} {result.cell.name:45} {result.real.seconds:6.1f} s  {table.offer(result)}")


def main() -> int:
    """Run what is asked for, write the table; 1 when a cell disagrees."""
    options = parser().parse_args()
    releases = options.release or list(RELEASES)
    named = [cells.named(name) for name in options.cell or []]
    if not options.table:
        for release in releases:
            wanted = [cell for cell in named if cell.release == release]
            run(release, wanted or ([] if named else cells.cells([release])), options.again)
    results = [result for release in RELEASES for result in kept(release)]
    tried = [result for release in RELEASES for result in kept(f"{release}-remedies")]
    table.write(RESULTS, table.render(results, tried))
    table.write(summary.FILE, summary.update(summary.FILE.read_text(encoding="utf-8"), results))
    wrong = [result for result in results if result.disagreement]
    useless = [result for result in tried if not result.mends]
    print(f"{len(results)} cells, {len(wrong)} disagree: {RESULTS}")
    for result in wrong:
        print(f"  {result.cell.name}: {result.disagreement}\n    {result.real.evidence}")
    for result in useless:
        print(f"  {result.cell.name}: {table.offer(result)}: {result.real.kind}")
    return 1 if wrong or useless else 0


if __name__ == "__main__":
    sys.exit(main())
