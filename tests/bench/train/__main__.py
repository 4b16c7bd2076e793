"""Measure how fast training is: python -m tests.bench.train [PART ...]

Prints tables in Markdown and writes build/bench-train.json. The cluster must be up and the image
built (`make bench-train` sees to both). Exit code 1 when something could not run.
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
from . import jobs, loops, sizes

PARTS: dict[str, Callable[[], list[Part]]] = {
    "jobs": jobs.measure,
    "small": lambda: [loops.measure("small")],
    "large": lambda: [loops.measure("large")],
    "sizes": sizes.measure,
    "tensorflow": lambda: [loops.measure("tensorflow")],
}
OUTPUT = CHECKOUT / "build" / "bench-train.json"


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
    parser = argparse.ArgumentParser(prog="python -m tests.bench.train", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)} (all)")
    options = parser.parse_args()
    if set(options.parts) - set(PARTS):
        parser.error(f"there is: {', '.join(PARTS)}")
    began, before = time.monotonic(), os.getloadavg()[0]
    parts = [part for name in options.parts or PARTS for part in attempt(name)]
    load, took = (before, os.getloadavg()[0]), time.monotonic() - began
    report.write(OUTPUT, parts, cpus=os.cpu_count(), load=load, seconds=took)
    print(report.text(parts, load))
    print(f"\n{took:.0f} s in all; every sample: {OUTPUT.relative_to(CHECKOUT)}")
    return 1 if any(part.problem.startswith("failed") for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
