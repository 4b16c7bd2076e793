"""Fetch everything an image's locks name: python3 -m containers.wheels cpu --into DIR

The host's pip does it, with its own configuration (index, find-links, certificate), so that
nothing of that configuration has to enter the image.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import atomic, catalogue, lockfile, pip
from .errors import RunnerError, SystemFault
from .lockfile import Pin

SOURCES = frozenset({"horovod"})  # taken as source archives; everything else as wheels
ALTERED = """\
{pin} is not the file that the lock names: its hash differs. Do not use it.
Take it from another index or folder; to lock new versions: make lock

{evidence}"""
CPU_BUILD = """\
The CPU build of PyTorch (+cpu) is not on the common package index: add PyTorch's own CPU index
(its address: pytorch.org, Get Started, pip, Linux, CPU).
"""


def fetch(image: catalogue.Image, source: pip.Source, folder: Path) -> None:
    """Fill `folder`, which appears only when complete. Raises RunnerError."""
    lock = catalogue.HERE / image.lock
    pins = [*lockfile.read(lock), *lockfile.build(lock)]
    wheels = [pin for pin in pins if pin.name not in SOURCES]
    archives = [pin for pin in pins if pin.name in SOURCES]
    with atomic.new_folder(folder) as part:
        _download(wheels, pip.target(image.python, image.glibc_minor), source, part)
        _download(archives, [f"--no-binary={pin.name}" for pin in archives], source, part)


def command(image: catalogue.Image, source: pip.Source, folder: Path) -> list[str]:
    """A command that does the same by hand."""
    program = ["python3", "-m", "containers.wheels", image.short, f"--into={folder}"]
    return [*program, *source.options()]


def _download(pins: Sequence[Pin], kind: Sequence[str], source: pip.Source, into: Path) -> None:
    # Not in /tmp, which is small on many machines; beside `into`, where progress.fetched looks.
    with tempfile.TemporaryDirectory(prefix=into.name, dir=into.parent) as temporary:
        lock = Path(temporary, "requirements.txt")
        lock.write_text("".join(f"{pin.line()}\n" for pin in pins))
        fixed = ["download", "--no-deps", "--require-hashes", "--progress-bar=off"]
        where = [f"--requirement={lock}", f"--dest={into}"]
        try:
            pip.run([*fixed, *where, *kind, *source.options()], {"TMPDIR": temporary})
        except RunnerError as error:
            raise _explained(error, pins, source) from error


def _explained(error: RunnerError, pins: Sequence[Pin], source: pip.Source) -> RunnerError:
    """Pip's failure with the remedy, when one package is missing or not the locked one."""
    evidence = str(error)
    if "DO NOT MATCH THE HASHES" in evidence:
        names = [name for name in _names(pins) if f"{name} from " in evidence]
        return SystemFault(ALTERED.format(pin=", ".join(names) or "a file", evidence=evidence))
    missing = [name for name in _names(pins) if f"for {name}" in evidence]
    if "No matching distribution found" not in evidence or not missing:
        return error
    return pip.no_file(missing[0], source, evidence, CPU_BUILD if "+cpu" in missing[0] else "")


def _names(pins: Sequence[Pin]) -> list[str]:
    return [f"{pin.name}=={pin.version}" for pin in pins]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m containers.wheels", description=__doc__)
    parser.add_argument("image", choices=sorted(catalogue.IMAGES))
    parser.add_argument("--into", metavar="DIR", required=True, type=Path, help="a new folder")
    pip.add_options(parser)
    options = parser.parse_args(argv)
    try:
        fetch(catalogue.image(options.image), pip.Source.of(options), options.into.absolute())
    except RunnerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
