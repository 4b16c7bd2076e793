"""Renew a lock: python3 -m containers.lock cpu [--extra-index-url URL]

Resolves the `.in` files to exact versions and hashes. Run it with the image's own Python version
on Linux x86_64, because pip evaluates environment markers for the Python that runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import catalogue, lockfile, pip
from .errors import BuildError, Refused
from .lockfile import Pin

# tf-keras requires the package `tensorflow`; tensorflow-cpu is the same without the CUDA parts.
PROVIDED = frozenset({"tensorflow"})
HEADER = "Written by python3 -m containers.lock from {source}: do not edit.\n{what}"
RUNTIME = "Everything the image installs, for CPython {python} on Linux x86_64."
BUILD = "What compiling Horovod needs besides {lock}; horovod is the source archive."


def pins_of(report: dict[str, Any]) -> list[Pin]:
    """The pins in pip's installation report (format: pip.pypa.io, installation report)."""
    return [_pin(entry) for entry in report["install"] if _name(entry) not in PROVIDED]


def _name(entry: dict[str, Any]) -> str:
    return lockfile.normalised(entry["metadata"]["name"])


def _pin(entry: dict[str, Any]) -> Pin:
    sha256 = entry["download_info"]["archive_info"]["hashes"]["sha256"]
    return Pin(_name(entry), entry["metadata"]["version"], sha256)


def resolve(requirements: Path, options: Sequence[str], constraints: Sequence[Pin]) -> list[Pin]:
    """Ask pip what `requirements` come to, given pins that are already there."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder, "constraints.txt")
        limits.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in constraints))
        command = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report=-"]
        where = [f"--requirement={requirements}", f"--constraint={limits}", f"--target={folder}"]
        report = pip.run([*command, *where, *options])
    present = {pin.name for pin in constraints}
    return [pin for pin in pins_of(json.loads(report)) if pin.name not in present]


def require_same_python(python: str) -> None:
    """Refused unless this interpreter is the image's version on the image's platform."""
    here = (".".join(platform.python_version_tuple()[:2]), sys.platform, platform.machine())
    if here != (python, "linux", "x86_64"):
        raise Refused(
            f"a lock for Python {python} on linux x86_64 cannot be renewed by Python {here[0]} on"
            f" {here[1]} {here[2]}.\nRun it there: python{python} -m containers.lock"
        )


def write(path: Path, text: str) -> None:
    """Replace a file in one step."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def renew(image: catalogue.Image, source: pip.Source) -> None:
    """Write both locks of an image. Raises BuildError."""
    require_same_python(image.python)
    here, options = catalogue.HERE, [*pip.target(image.python), *source.options()]
    wanted = (here / image.lock).with_suffix(".in"), (here / image.build_lock).with_suffix(".in")
    runtime = resolve(wanted[0], options, [])
    # Horovod is the one package taken as source; --target needs binaries only, so no target here.
    build = resolve(wanted[1], [*source.options(), "--no-binary=horovod"], runtime)
    what = RUNTIME.format(python=image.python), BUILD.format(lock=image.lock)
    for name, pins, asked, text in zip(
        (image.lock, image.build_lock), (runtime, build), wanted, what
    ):
        write(here / name, lockfile.render(pins, HEADER.format(source=asked.name, what=text)))
        print(f"{name}: {len(pins)} packages")


def main(argv: Sequence[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python3 -m containers.lock", description=__doc__)
    parser.add_argument("image", choices=sorted(catalogue.IMAGES))
    pip.add_options(parser)
    options = parser.parse_args(argv)
    try:
        renew(catalogue.image(options.image), pip.Source.of(options))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
