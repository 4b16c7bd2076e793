"""Runs one command several times at once, as the ranks of a node start; prints JSON.

`seconds` is from before the first start to the end of the last, `failed` has the exit code and the
last line of each that failed. With --mount the file that the command names is mounted before, once
for all, as `--stage-image mount` does; that time is not counted.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners.injob.stage import mount

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """One of them."""
    quiet, caught = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, text=True, stdout=quiet, stderr=caught)


def together(command: Sequence[str], count: int) -> dict[str, Any]:
    """Start `count` and wait for all."""
    began = time.perf_counter()
    running = [start(command) for _ in range(count)]
    ended = [(one.communicate()[1], one.returncode) for one in running]
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "failed": [failure(code, text) for text, code in ended if code]}


def mounted(command: Sequence[str], file: str, count: int) -> dict[str, Any]:
    """The same with the squashfs file mounted. It is an error where it was not."""
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder, "image")
        mount.serve(folder, entry.name, file, "0", "apptainer")
        assert entry.resolve().is_dir(), f"{file} was not mounted"
        try:
            return together([str(entry) if word == file else word for word in command], count)
        finally:
            mount.release(folder)


def failure(code: int, text: str) -> str:
    """What one line can say of it."""
    plain = COLOUR.sub("", text)
    last = (plain.strip().splitlines() or ["it said nothing"])[-1]
    return f"exit code {code}: {last}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--mount", metavar="FILE", help="mount this squashfs file before")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command, count, file = options.command, options.count, options.mount
    print(json.dumps(mounted(command, file, count) if file else together(command, count)))


if __name__ == "__main__":
    main()
