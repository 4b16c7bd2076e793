"""Fetch everything an image's locks name: python3 -m containers.wheels cpu --into DIR

The host's pip does it, with its own configuration (index, find-links, certificate), so that
nothing of that configuration has to enter the image. PyTorch's builds for CPUs are asked for in
PyTorch's own index, where that configuration does not find them and a variable names it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.core import atomic
from runners.core.errors import RunnerError, SystemFault
from runners.core.machine import MACHINES, architecture

from . import image_catalogue, lockfile, pip
from .lockfile import Pin

SOURCES = frozenset({"horovod"})  # taken as source archives; everything else as wheels
ALTERED = """\
{pin} is not the file that the lock names: its hash differs. Do not use it.
Take it from another index or folder; to lock new versions: make lock

{evidence}"""
CPU = "+cpu"  # ends the version of PyTorch's builds for CPUs, which the common index does not have
CPU_INDEX_VARIABLE = "RUNNER_TORCH_CPU_INDEX"
NAMED = f"{CPU_INDEX_VARIABLE}=ADDRESS: what pytorch.org/get-started shows for pip and CPU"


def fetch(image: image_catalogue.Image, source: pip.PackageSource, folder: Path) -> None:
    """Fill `folder`, which appears only when complete. Raises RunnerError."""
    lock = image_catalogue.HERE / image.lock
    pins = [*lockfile.read(lock), *lockfile.build(lock)]
    archives = [pin for pin in pins if pin.name in SOURCES]
    builds = [pin for pin in pins if pin.version.endswith(CPU)]
    wheels = [pin for pin in pins if pin not in archives + builds]
    machine = MACHINES[image.architecture]
    target = pip.target(image.python, image.glibc_minor, machine)
    with atomic.new_folder(folder) as part:
        _download_cpu_builds(builds, target, source, part)
        _download(wheels, target, source, part)
        _download_archives(archives, source, part)


def fetch_archives(pins: Sequence[Pin], source: pip.PackageSource, folder: Path) -> None:
    """Fill `folder` with source archives alone. Raises RunnerError."""
    with atomic.new_folder(folder) as part:
        _download_archives(pins, source, part)


def command(image: image_catalogue.Image, source: pip.PackageSource, folder: Path) -> list[str]:
    """A command that does the same by hand."""
    program = ["python3", "-m", "containers.wheels", image.short, f"--arch={image.architecture}"]
    return [*program, f"--into={folder}", *source.options()]


def _download_archives(pins: Sequence[Pin], source: pip.PackageSource, into: Path) -> None:
    _download(pins, [f"--no-binary={pin.name}" for pin in pins], source, into)


def _download_cpu_builds(
    pins: Sequence[Pin], kind: Sequence[str], source: pip.PackageSource, into: Path
) -> None:
    """From where everything comes from, or else from PyTorch's own index, if it is named."""
    try:
        _download(pins, kind, source, into)
        return
    except pip.NoFile as error:
        index = os.environ.get(CPU_INDEX_VARIABLE, "")
        if not index:
            raise pip.NoFile(error.what, error.evidence, f"{NAMED}\n{pip.ELSEWHERE}") from error
        if why := _why_not_asked(source):
            message = f"{error.what}; PyTorch's CPU index ({index}) is not asked, as {why}"
            raise pip.NoFile(message, error.evidence, pip.ELSEWHERE) from error
    shown = ", ".join(f"{pin.name} {pin.version}" for pin in pins)
    cpu_index = f"PyTorch's CPU index ({index})"
    print(f"{shown}: from {cpu_index}, as it is not {pip.HERE}", file=sys.stderr)
    # pip lets variables win over its configuration, but not empty ones.
    alone = {"PIP_EXTRA_INDEX_URL": index, "PIP_FIND_LINKS": os.devnull}
    try:
        _download(pins, kind, pip.PackageSource(index_url=index), into, alone)
    except pip.NoFile as error:
        answer = "does not answer" if pip.NO_ANSWER in error.evidence else "does not have it either"
        message = f"no file for {_names(pins)[0]} {pip.HERE}; {cpu_index} {answer}"
        raise pip.NoFile(message, error.evidence, pip.ELSEWHERE) from error


def _why_not_asked(source: pip.PackageSource) -> str:
    """What says that the user wants no other place than those named, "" when nothing does."""
    if source.wheelhouse or source.index_url:
        return f"{'--wheelhouse' if source.wheelhouse else '--index-url'} says where to look"
    no_index = pip.machine_settings().get("no-index", "").lower() in pip.TRUE
    return "pip's configuration says no-index" if no_index else ""


def _download(
    pins: Sequence[Pin],
    kind: Sequence[str],
    source: pip.PackageSource,
    into: Path,
    variables: Mapping[str, str] | None = None,
) -> None:
    if not pins:
        return
    # Not in /tmp, which is small on many machines; beside `into`, where build_steps.fetched looks.
    with tempfile.TemporaryDirectory(prefix=into.name, dir=into.parent) as temporary:
        lock = Path(temporary, "requirements.txt")
        lock.write_text(lockfile.lines(pins))
        fixed = ["download", "--no-deps", "--require-hashes", "--progress-bar=off"]
        where = [f"--requirement={lock}", f"--dest={into}"]
        # The machine's constraints could only hide what is missing: every file is pinned.
        environment = {"TMPDIR": temporary, "PIP_CONSTRAINT": os.devnull, **(variables or {})}
        if source.wheelhouse:
            environment["PIP_FIND_LINKS"] = os.devnull  # not its other folders
        try:
            pip.run([*fixed, *where, *kind, *source.options()], environment)
        except RunnerError as error:
            raise _explained(error, pins, source) from error


def _explained(error: RunnerError, pins: Sequence[Pin], source: pip.PackageSource) -> RunnerError:
    """Pip's failure with the remedy, when one package is missing or not the locked one."""
    evidence = str(error)
    if "DO NOT MATCH THE HASHES" in evidence:
        names = [name for name in _names(pins) if f"{name} from " in evidence]
        return SystemFault(
            ALTERED.format(pin=", ".join(names) or "a file", evidence=evidence), id="wheel-altered"
        )
    pin = pip.missing(evidence)
    return pip.NoFile.of(pin, source, evidence) if pin else error


def _names(pins: Sequence[Pin]) -> list[str]:
    return [f"{pin.name}=={pin.version}" for pin in pins]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m containers.wheels", description=__doc__)
    parser.add_argument("image", choices=sorted(image_catalogue.IMAGES))
    parser.add_argument("--arch", choices=sorted(MACHINES), default=architecture())
    parser.add_argument("--into", metavar="DIR", required=True, type=Path, help="a new folder")
    pip.add_options(parser)
    options = parser.parse_args(argv)
    try:
        image = image_catalogue.image(options.image, options.arch)
        fetch(image, pip.PackageSource.of(vars(options)), options.into.absolute())
    except RunnerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
