"""Build an image from one definition file: a user's own, or one derived from an image."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from . import apptainer, chain, definition, modes, process, space
from .apptainer import Apptainer, Build
from .chain import Progress
from .errors import UsageError
from .places import Places
from .plan import COMPRESSION
from .space import Needs

# A base of unknown size: what the larger of our own images comes to while it is built.
UNKNOWN = Needs(4 * 10**9, 50_000)


class Around(Protocol):
    """What is done before the build, and with its result before that takes its name."""

    def before(self, runtime: Apptainer, temporary: Path, log: Path) -> None:
        """Make what the build binds. Raises BuildError."""

    def after(self, runtime: Apptainer, image: Path, log: Path) -> None:
        """Check the image. Raises BuildError."""


@dataclass(frozen=True)
class Single:
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


def check(asked: Single) -> None:
    """Raise UsageError for what is wrong in the definition, before anything is started."""
    definition.check(asked.text, asked.name, asked.given)
    if asked.output.is_dir():
        raise UsageError(f"--output {asked.output} is a folder; name a file, such as my.sif")
    folder = next(path for path in asked.output.parents if path.exists())
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output {asked.output}: you may not write in {folder}")


def describe(asked: Single) -> str:
    """The definition, and the command that would be run in the way that works here."""
    apptainer.require()
    places = Places.locate(os.environ)
    places.temporary.mkdir(parents=True, exist_ok=True)  # another build may be using it
    mode = modes.choose(apptainer.environment(places, os.environ, 0))
    runtime = Apptainer(mode, {}, places.temporary, asked.ca)
    path = Path(asked.name if asked.folder else "image.def")
    build = _build(asked, path, asked.output, places.temporary)
    return f"{asked.text.rstrip()}\n\n# {mode.name}\n{shlex.join(runtime.argv(build))}"


def _build(asked: Single, path: Path, output: Path, temporary: Path) -> Build:
    binds = tuple(f"{temporary / name}:{target}:ro" for name, target in asked.binds.items())
    return Build(path, output, asked.files, asked.given, binds, COMPRESSION)


def build(asked: Single, progress: Progress) -> None:
    """Make the image, run its test, put it in place. Raises BuildError; what was there stays."""
    check(asked)
    apptainer.require()
    places = Places.locate(os.environ)
    with chain.only_build(places.work, progress):
        process.empty(places.temporary)
        try:
            _carry_out(asked, places, progress)
        finally:
            process.empty(places.temporary)


def _carry_out(asked: Single, places: Places, progress: Progress) -> None:
    environ = apptainer.environment(places, os.environ, 0)
    del environ["SOURCE_DATE_EPOCH"]  # the times of a user's own files are the user's
    for warning in space.require(places.temporary, asked.needs):
        progress.say(f"warning: {warning}")
    mode = modes.choose(environ)
    progress.say(f"build mode: {mode.name} ({mode.evidence})")
    log = places.logs / f"{asked.output.stem}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    part = asked.output.with_name(f".{asked.output.name}.part")
    try:
        runtime = Apptainer(mode, environ, places.temporary, asked.ca)
        _make(asked, part, runtime, progress, log)
        os.replace(part, asked.output)
    finally:
        part.unlink(missing_ok=True)


def _make(asked: Single, part: Path, runtime: Apptainer, progress: Progress, log: Path) -> None:
    around, path = asked.around, runtime.temporary / "image.def"
    path.write_text(asked.text, encoding="utf-8")
    names = ["what it adds", asked.name, "its test"] if around else [asked.name, "its test"]
    phases = (progress.phase(f"[{i}/{len(names)}] {n}", log) for i, n in enumerate(names, 1))
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
