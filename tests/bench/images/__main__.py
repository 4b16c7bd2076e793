"""Measure how the CPU image is packed and built: python -m tests.bench.images [PART ...]

Prints a table and writes build/bench-images.json. The cluster must be up and the image built
(`make bench-images` sees to both). `pack` comes before what starts the packed forms. The forms stay
on scratch, 8 GB, until the part `remove`. Exit code 1 when something could not run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Callable

from tests.cluster.state import CHECKOUT

from .. import report
from ..errors import BenchError, Skipped
from ..report import Part
from . import builds, packing, ranks, start

PARTS: dict[str, Callable[[], list[Part]]] = {
    "pack": packing.measure,
    "warm": start.measure_warm,
    "cold": start.measure_cold,
    "ranks": ranks.measure,
    "edit": builds.measure_edit,
    "build": builds.measure_cold,
    "remove": packing.remove,
}
DEFAULT = ("pack", "warm", "cold", "ranks", "edit")
OUTPUT = CHECKOUT / "build" / "bench-images.json"


def attempt(name: str) -> list[Part]:
    """One part's tables, or why there are none."""
    print(f"bench: {name} ...", file=sys.stderr, flush=True)
    try:
        return PARTS[name]()
    except Skipped as reason:
        return [Part(name, problem=f"skipped: {reason}")]
    except BenchError as error:
        return [Part(name, problem=f"failed: {error}")]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.images", description=__doc__)
    shown = f"of: {', '.join(PARTS)} ({', '.join(DEFAULT)})"
    parser.add_argument("parts", nargs="*", metavar="PART", help=shown)
    options = parser.parse_args()
    if set(options.parts) - set(PARTS):
        parser.error(f"there is: {', '.join(PARTS)}")
    began, before = time.monotonic(), os.getloadavg()[0]
    parts = [part for name in options.parts or DEFAULT for part in attempt(name)]
    load, took = (before, os.getloadavg()[0]), time.monotonic() - began
    report.write(OUTPUT, parts, cpus=os.cpu_count(), load=load, seconds=took)
    print(report.text(parts, load))
    print(f"\n{took:.0f} s in all; every sample: {OUTPUT.relative_to(CHECKOUT)}")
    return 1 if any(part.problem.startswith("failed") for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
