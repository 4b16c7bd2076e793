"""Measure runner and the CPU image: python -m tests.bench [PART ...]

Prints a table and writes build/bench.json. The cluster must be up and the image built (`make
bench` sees to both). Exit code 1 when something could not run, whatever the numbers are.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Callable

from tests.cluster.state import CHECKOUT

from . import data, first_step, rendezvous, report, startup, throughput
from .errors import BenchError, Skipped

PARTS = {
    "startup": startup,
    "first-step": first_step,
    "rendezvous": rendezvous,
    "throughput": throughput,
    "data": data,
}
OUTPUT = CHECKOUT / "build" / "bench.json"


def attempt(title: str, measure: Callable[[], report.Part]) -> report.Part:
    """One part, or why there is none."""
    print(f"bench: {title} ...", file=sys.stderr, flush=True)
    try:
        return measure()
    except Skipped as reason:
        return report.Part(title, problem=f"skipped: {reason}")
    except BenchError as error:
        return report.Part(title, problem=f"failed: {error}")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)} (all)")
    chosen = parser.parse_args().parts or list(PARTS)
    if set(chosen) - set(PARTS):
        parser.error(f"there is: {', '.join(PARTS)}")
    began, before = time.monotonic(), os.getloadavg()[0]
    parts = [attempt(PARTS[name].TITLE, PARTS[name].measure) for name in chosen]
    load, took = (before, os.getloadavg()[0]), time.monotonic() - began
    report.write(OUTPUT, parts, cpus=os.cpu_count(), load=load, seconds=took)
    print(report.text(parts, load))
    print(f"\n{took:.0f} s in all; every sample: {OUTPUT.relative_to(CHECKOUT)}")
    return 1 if any(part.problem.startswith("failed") for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
