"""Times short commands, in one process and in turns; prints {case: [seconds]} as JSON."""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..rounds import interleaved, seconds

PYTHON = "/opt/runner/bin/python"
RUNNER = "/opt/runner/bin/runner"
WARM_UP = 2  # rounds that fill the page cache and are not counted


def commands(image: str) -> dict[str, list[str]]:
    """The cases, all of the same interpreter."""
    return {
        "python": [PYTHON, "-c", "pass"],
        "click": [PYTHON, "-c", "import click"],
        "help": [RUNNER, "--help"],
        "dry-run": [RUNNER, "launch", "--dry-run", "--image", image, "torch_mnist"],
    }


def once(command: Sequence[str], folder: str) -> float:
    """Run a command to its end in `folder`; its seconds. Raises CalledProcessError."""
    run = functools.partial(subprocess.run, command, cwd=folder, check=True)
    return seconds(functools.partial(run, stdout=subprocess.DEVNULL))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    # A folder of the nodes too: a launch from another one is refused.
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        wanted = commands(options.image).items()
        cases = {name: functools.partial(once, command, folder) for name, command in wanted}
        interleaved(cases, WARM_UP)
        print(json.dumps(interleaved(cases, options.rounds)))


if __name__ == "__main__":
    main()
