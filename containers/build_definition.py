"""Builds an image from one definition file: a user's own, or one on top of another image."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from . import apptainer, atomic, build_modes, definition, process, space
from .apptainer import Apptainer, Build
from .errors import UsageError
from .places import Places
from .plan import COMPRESSION
from .progress import Progress, last_line
from .space import Needs

# A base of unknown size: what the larger of our own images comes to while it is built.
UNKNOWN = Needs(4 * 10**9, 50_000)


class Around(Protocol):
    """What is done before the build, and with its result before that takes its name."""

    def before(self, runtime: Apptainer, temporary: Path, log: Path) -> None:
        """Make what the build binds. Raises RunnerError."""

    def after(self, runtime: Apptainer, image: Path, log: Path) -> None:
        """Check the image. Raises RunnerError."""


@dataclass(frozen=True)
class OneDefinition:
    """One definition and the image to make of it.

    Relative names in it belong to `folder`, or are those of `files` where there is none.
    """

    text: str
    name: str  # of the definition, for messages
    folder: Path | None
    output: Path
    given: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)  # a folder in temporary -> in the image
    needs: Needs = UNKNOWN
    ca: Path | None = None
    around: Around | None = None


def read(path: Path) -> str:
    """The text of a definition file. Raises UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the definition {path}: {error}") from None


def check(asked: OneDefinition) -> None:
    """Raise UsageError for what is wrong in the definition, before anything is started."""
    definition.check(asked.text, asked.name, asked.given)
    if asked.output.is_dir():
        raise UsageError(f"--output {asked.output} is a folder; name a file, such as my.sif")
    folder = next(path for path in asked.output.parents if path.exists())
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output {asked.output}: you may not write in {folder}")


def describe(asked: OneDefinition) -> str:
    """The definition, and the command that would be run in the way that works here."""
    apptainer.require()
    places = Places.locate(os.environ)
    places.temporary.mkdir(parents=True, exist_ok=True)  # another build may be using it
    mode = build_modes.choose(apptainer.environment(places, os.environ, 0))
    runtime = Apptainer(mode, {}, places.temporary, asked.ca)
    path = Path(asked.name if asked.folder else "image.def")
    build = _build(asked, path, asked.output, places.temporary)
    return f"{asked.text.rstrip()}\n\n# {mode.name}\n{shlex.join(runtime.argv(build))}"


def _build(asked: OneDefinition, path: Path, output: Path, temporary: Path) -> Build:
    binds = tuple(f"{temporary / name}:{target}:ro" for name, target in asked.binds.items())
    return Build(path, output, asked.files, asked.given, binds, COMPRESSION)


def build(asked: OneDefinition, progress: Progress) -> None:
    """Make the image, run its test, put it in place. Raises RunnerError; what was there stays."""
    check(asked)
    apptainer.require()
    places = Places.locate(os.environ)
    with process.only_build(places.work, progress), process.emptied(places.temporary):
        _carry_out(asked, places, progress)


def _carry_out(asked: OneDefinition, places: Places, progress: Progress) -> None:
    environ = apptainer.environment(places, os.environ, 0)
    del environ["SOURCE_DATE_EPOCH"]  # the times of a user's own files are the user's
    for warning in space.require(places.temporary, asked.needs):
        progress.say(f"warning: {warning}")
    mode = build_modes.choose(environ)
    progress.say(f"build mode: {mode.name} ({mode.evidence})")
    log = places.logs / f"{asked.output.stem}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    runtime = Apptainer(mode, environ, places.temporary, asked.ca)
    with atomic.new_file(asked.output) as part:
        _make(asked, part, runtime, progress, log)


def _make(
    asked: OneDefinition, part: Path, runtime: Apptainer, progress: Progress, log: Path
) -> None:
    around, path = asked.around, runtime.temporary / "image.def"
    path.write_text(asked.text, encoding="utf-8")
    names = ["what it adds", asked.name, "its test"] if around else [asked.name, "its test"]
    status = partial(last_line, log)
    phases = (progress.phase(f"[{i}/{len(names)}] {n}", status) for i, n in enumerate(names, 1))
    if around:
        with next(phases):
            around.before(runtime, runtime.temporary, log)
    with next(phases):
        build = _build(asked, path, part, runtime.temporary)
        runtime.build(build, log, asked.folder)
    with next(phases):
        runtime.test(part, log)
        if around:
            around.after(runtime, part, log)
