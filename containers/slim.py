"""Take out of an image what running does not need: python3 slim.py LIST ROOT

Run in the container while it is built. LIST has a line for each thing: a verb, a pattern below
ROOT, and after `#` what it costs to be without it. Verbs: `drop` removes files and folders, `strip`
removes the symbols and debug information of libraries (needs binutils). Before the verb may stand
the only machine (x86_64, aarch64) that the line is for. A pattern that matches
nothing is an error: the list was written for other versions of the packages.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(
    r"(?:(?P<machine>x86_64|aarch64)\s+)?"
    r"(?P<verb>drop|strip)\s+(?P<pattern>[^\s#]+)\s+#\s*(?P<cost>.+)"
)


class SlimError(Exception):
    """The list cannot be read, or does not fit what is there."""


@dataclass(frozen=True)
class Entry:
    """One line of a list."""

    verb: str
    pattern: str
    cost: str
    machine: str | None = None  # any


def parse(text: str) -> list[Entry]:
    """The entries of a list. SlimError names the first line that is none."""
    entries = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line and not line.startswith("#"):
            match = LINE.fullmatch(line)
            if match is None:
                raise SlimError(f"line {number} is not 'drop|strip PATTERN # cost': {line!r}")
            entries.append(Entry(**match.groupdict()))
    return entries


def size(paths: Iterable[Path]) -> int:
    """Bytes of files, and of all files below folders; links are not followed."""
    files = (file for path in paths for file in (path, *path.rglob("*")))
    return sum(file.lstat().st_size for file in files if file.is_file() and not file.is_symlink())


def carry_out(entry: Entry, root: Path) -> int:
    """Do what one entry says; return how many bytes smaller `root` is. Raises SlimError."""
    paths = sorted(root.glob(entry.pattern))
    if not paths:
        raise SlimError(f"nothing matches {entry.verb} {entry.pattern}: other package versions?")
    before = size(paths)
    if entry.verb == "strip":
        subprocess.run(["strip", "--strip-unneeded", *map(str, paths)], check=True)
        return before - size(paths)
    for path in paths:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return before


def main(argv: list[str]) -> int:
    """Carry out a list and print what each line saved."""
    entries, root = Path(argv[0]), Path(argv[1])
    total = 0
    try:
        for entry in parse(entries.read_text(encoding="utf-8")):
            if entry.machine not in (None, platform.machine()):
                continue
            saved = carry_out(entry, root)
            total += saved
            print(f"{saved / 1e6:8.1f} MB  {entry.verb:5} {entry.pattern}  # {entry.cost}")
    except SlimError as error:
        print(f"slim.py: {entries.name}: {error}", file=sys.stderr)
        return 1
    print(f"{total / 1e6:8.1f} MB  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
