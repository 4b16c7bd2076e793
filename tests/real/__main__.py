"""Run the tests on real clusters, and up to three that failed once more, one at a time.

Two files run at a time, beside the clusters, on as few as two cores: a job can be late by half a
minute. A test that passes by itself is told of, with its name, and is to be looked at: it has
found a race, in itself or in the kit. `.ci/run` names a file for all of its lanes in RUNNER_RACES:
the second such test fails the run. Arguments go to pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = "tests/real"
ALL = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-v"]
ALL += ["--durations", "0", "--durations-min", "20"]
AGAIN = ["--last-failed", "--last-failed-no-failures", "none", "-v"]
MOST_AGAIN = 3
FAILED = Path(".pytest_cache/v/cache/lastfailed")
EXIT_TESTS_FAILED = 1
RACES = "RUNNER_RACES"  # the file to which each lane adds its tests that passed the second time
MOST_RACES = 1


def main(arguments: list[str]) -> int:
    """Return pytest's exit code; 0 where all that failed passed the second time."""
    FAILED.unlink(missing_ok=True)  # of an earlier run
    code = run(*ALL, *arguments)
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if code != EXIT_TESTS_FAILED or not 0 < len(failed) <= MOST_AGAIN:
        return code
    print(f"once more, one at a time: {' '.join(failed)}", flush=True)
    code = run(*AGAIN, *arguments)
    if code == 0:
        print("failed first and passed then, so there is a race:", *failed, sep="\n  ")
        return count_races(failed)
    return code


def count_races(names: list[str]) -> int:
    """Add them to those of the lanes before; return the exit code."""
    file = os.environ.get(RACES)
    if not file:
        return 0
    with open(file, "a+", encoding="utf-8") as stream:
        stream.write("".join(f"{name}\n" for name in names))
        stream.seek(0)
        found = stream.read().splitlines()
    if len(found) <= MOST_RACES:
        return 0
    print(f"{len(found)} tests of this run failed first and passed then, so it fails:", end="")
    print("", *found, sep="\n  ", flush=True)
    return EXIT_TESTS_FAILED


def run(*options: str) -> int:
    return subprocess.call([sys.executable, "-m", "pytest", *options, TESTS])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
