"""Prove an image on this machine's GPUs: python3 -m tests.gpu --image IMAGE [--report FILE]

IMAGE is a .sif, or the folder of a Python environment with torch. Needs no network, no root and no
scheduler; takes about ten minutes. Writes a report of one page. Exit codes: 0 all is well, 1 a
check failed, 2 bad arguments or no GPU here. `--speed` compares trainers with reference scripts.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from . import checks, speed
from .machine import Absent, Bench, Failed, gpus


def run_checks(
    bench: Bench, every: Sequence[tuple[str, Callable[[Bench], str]]]
) -> list[list[str]]:
    """Run the checks in turn; return a row of the report for each, and print it."""
    rows = []
    for name, check in every:
        began = time.monotonic()
        try:
            result, evidence = "ok", check(bench)
        except Absent as error:
            result, evidence = "not run", str(error)
        except Failed as error:
            result, evidence = "FAILED", str(error)
            print(evidence, file=sys.stderr)
        seconds = f"{time.monotonic() - began:.0f} s"
        rows.append([name, result, seconds, " ".join(evidence.split())[:160].replace("|", "/")])
        print(": ".join(rows[-1]), flush=True)
    return rows


def report(
    image: Path, machine: Sequence[str], headings: Sequence[str], rows: list[list[str]]
) -> str:
    """Return the page, in Markdown."""
    title = f"# {image.name} on {platform.node()}, {datetime.date.today():%Y-%m-%d}"
    table = [list(headings), ["---"] * len(headings), *rows]
    lines = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([title, "", *machine, "", *lines, ""])


def main(argv: Sequence[str]) -> int:
    """Run the checks or the comparison, and write the report."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu", description=__doc__)
    parser.add_argument("--image", type=Path, required=True, help="a .sif or an environment")
    parser.add_argument("--report", type=Path, help="write the report into this file")
    parser.add_argument("--speed", action="store_true", help="compare with reference scripts")
    options = parser.parse_args(argv)
    try:
        machine = [
            f"- {gpu.name}, {gpu.memory}, driver {gpu.driver}, {gpu.capability}" for gpu in gpus()
        ]
    except Absent as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not options.image.exists():
        print(f"error: --image {options.image}: no such file or folder", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.image.resolve(), Path(folder))
        if options.speed:
            headings, rows = speed.HEADINGS, speed.measure(bench)
        else:
            headings, rows = (
                ("check", "result", "time", "evidence"),
                run_checks(bench, checks.CHECKS),
            )
    text = report(options.image, machine, headings, rows)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    print(text)
    return 1 if any("FAILED" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
