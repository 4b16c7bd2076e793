"""Trains with `runner launch`, one job after the other and in turns; prints their results as JSON.

The cases are {"CASE": [the words of `runner launch`]}; the answer is {"CASE": [the result.json of
each run]}.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..rounds import interleaved


def train(words: list[str], root: Path) -> dict[str, Any]:
    """Run one job to its end; return its result. Exits with what was said when there is none."""
    folder = Path(tempfile.mkdtemp(dir=root))
    command = ["runner", "launch", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = list(folder.glob("runs/*/result.json"))
    if done.returncode or not found:
        said = (done.stdout + done.stderr)[-3000:]
        sys.exit(f"exit code {done.returncode} from: {' '.join(command)}\n{said}")
    result: dict[str, Any] = json.loads(found[0].read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--folder", required=True, help="on a file system of all nodes")
    parser.add_argument("--cases", type=json.loads, required=True, help="JSON, as above")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        cases = {
            case: functools.partial(train, words, Path(name))
            for case, words in options.cases.items()
        }
        print(json.dumps(interleaved(cases, options.rounds)))


if __name__ == "__main__":
    main()
