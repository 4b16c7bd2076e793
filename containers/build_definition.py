"""Builds an image from one definition file: a user's own, or one made from another image."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runners.core import atomic, digest, disk_space, sif
from runners.core.disk_space import Needs
from runners.core.errors import SystemFault, UsageError
from runners.core.text import utc

from . import apptainer, apt, build_record, build_steps, definition, process
from .added_packages import AddedPackages
from .apptainer import Apptainer, Build
from .build_folders import BuildFolders
from .build_plan import USUAL_LEVEL, ZSTD
from .build_steps import BuildProgress, BuildStep
from .definition import Base
from .foreign_horovod import HorovodBuild

# A base of unknown size: what the larger of our own images comes to while it is built.
UNKNOWN = Needs(4 * 10**9, 50_000)
NO_KEY = ""  # in its record: an image of a user's definition is built each time it is asked for
# What %post has instead of the machine's: it may be full of others' files, or be emptied there.
TMP_FOLDERS = {"tmp": "/tmp", "var-tmp": "/var/tmp"}
PRIVATE_FOLDER = "private"  # the folder of those, through which no other user of the machine gets
STAGE_FOLDER = "stage"  # the folder of a derived build's files, in the temporary one
SAFE_NAME = re.compile(r"[\w.+-]+")
UNFINISHED = """\
the %post of {name} ended before its last line, so its labels are not renewed.
Does it call 'exit'? Leave that out, or put what may end early in parentheses: ( ... )"""


@dataclass(frozen=True)
class DefinitionBuild:
    """One definition and the image to make of it, from the image `base` if there is one.

    Relative names in it belong to `folder`, or are those of `files` where there is none.
    """

    text: str
    name: str  # of the definition or requirements, for messages
    folder: Path | None
    output: Path
    build_args: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    ca: Path | None = None
    base: Base | None = None
    packages: AddedPackages | None = None  # to add to the base
    labels: Mapping[str, str] = field(default_factory=dict)  # besides the base's own
    level: int = USUAL_LEVEL  # of zstd
    debian: str = ""  # the release, where a definition starts from an image without apt sources


def with_packages(packages: AddedPackages, output: Path) -> DefinitionBuild:
    """The base with what a requirements file asks for, or with Horovod. Raises RunnerError."""
    base, wanted = packages.base, packages.wanted
    link = base.path.name if SAFE_NAME.fullmatch(base.path.name) else "base.sif"
    proof = wanted.imports() if isinstance(wanted, HorovodBuild) else ""
    return DefinitionBuild(
        text=definition.with_packages(link, packages.inside.python, proof),
        name=Path(packages.name).name,
        folder=None,
        output=output,
        files={link: base.path},
        ca=packages.ca,
        base=base,
        packages=packages,
    )


def with_definition(
    base: Base | None, path: Path, build_args: Mapping[str, str], output: Path, ca: Path | None
) -> DefinitionBuild:
    """The user's definition, on top of the base if there is one. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the definition {path}: {error}", id="definition-unreadable"
        ) from None
    definition.check(text, path.name, build_args)
    if base:
        text = definition.with_definition(base, text, path.name)
    folder = path.absolute().parent
    start = base.path if base else folder / definition.local_base(text, build_args)
    debian = apt.release_without_sources(start) if start.is_file() else ""
    if debian:
        text = definition.with_start(text, apt.BEGIN)
    return DefinitionBuild(
        text, path.name, folder, output, build_args, ca=ca, base=base, debian=debian
    )


def describe(target: DefinitionBuild) -> str:
    """The definition, and the command that would be run in the way that works here."""
    folders = BuildFolders.locate(os.environ)
    runtime = Apptainer.here(folders, target.ca)
    path = Path(target.name if target.folder else "image.def")
    command = runtime.argv(_build(target, path, target.output, folders.temporary))
    return f"{target.text.rstrip()}\n\n# {runtime.mode.name}\n{shlex.join(command)}"


def build(target: DefinitionBuild, shown: BuildProgress) -> None:
    """Make the image, run its test, put it in place. Raises RunnerError; what was there stays."""
    if target.packages and isinstance(target.packages.wanted, HorovodBuild):
        shown.say(target.packages.wanted.summary())
    folders = BuildFolders.locate(os.environ)
    with process.only_build(folders.work, shown), process.emptied(folders.temporary) as temporary:
        needs = definition.needs(target.base) if target.base else UNKNOWN
        disk_space.require(temporary, needs, shown.say)
        runtime = Apptainer.here(folders, target.ca)
        shown.say(runtime.mode.said)
        log = process.fresh_log(folders.logs / f"{target.output.stem}.log")
        with atomic.new_file(target.output) as part:
            build_steps.run(_steps(target, part, runtime, log), shown)
        build_record.write(target.output, NO_KEY, f"sha256:{digest.sha256(target.output)}")


def _steps(target: DefinitionBuild, part: Path, runtime: Apptainer, log: Path) -> list[BuildStep]:
    path, status = runtime.temporary / "image.def", partial(build_steps.last_line, log)
    path.write_text(target.text, encoding="utf-8")
    private = runtime.temporary / PRIVATE_FOLDER
    private.mkdir(mode=0o700)
    for folder in (private / name for name in TMP_FOLDERS):
        folder.mkdir()
        folder.chmod(0o1777)  # for users of the image, as apt's
    build = _build(target, path, part, runtime.temporary)
    fill = partial(_fill_stage, target, runtime, log)
    make = partial(runtime.build, build, log, target.folder)
    test = partial(_test, target, runtime, part, log)
    return [
        *([BuildStep("what it adds", True, fill, status=status)] if _staged(target) else []),
        BuildStep(target.name, True, make, status=status),
        BuildStep("its test", True, test, status=status),
    ]


def _staged(target: DefinitionBuild) -> bool:
    return bool(target.base or target.debian)


def _build(target: DefinitionBuild, path: Path, output: Path, temporary: Path) -> Build:
    binds = [f"{temporary / STAGE_FOLDER}:{definition.STAGE}:ro"] if _staged(target) else []
    private = temporary / PRIVATE_FOLDER
    binds += [f"{private / name}:{folder}" for name, folder in TMP_FOLDERS.items()]
    compression = ZSTD.format(target.level)
    return Build(path, output, target.files, target.build_args, tuple(binds), compression)


def _fill_stage(target: DefinitionBuild, runtime: Apptainer, log: Path) -> None:
    """Fill the folder that the build binds. Raises RunnerError."""
    stage, asking = runtime.temporary / STAGE_FOLDER, runtime.temporary / "asking"
    stage.mkdir()
    if target.debian:
        apt.fill(target.debian, stage / "apt")
    if target.base:
        labels = {**definition.labels(target.base, utc()), **target.labels}
        (stage / "labels").write_text(definition.render_labels(labels), encoding="utf-8")
    if target.packages:
        asking.mkdir()
        target.packages.fetch(runtime, asking, stage, log)


def _test(target: DefinitionBuild, runtime: Apptainer, image: Path, log: Path) -> None:
    """Run the image's test, and that of its base, which must be named. Raises RunnerError."""
    runtime.test(image, log)
    if target.base is None:
        return
    named = (sif.labels(image) or {}).get(definition.DIGEST_LABEL)
    if named != f"sha256:{target.base.digest}":
        raise SystemFault(UNFINISHED.format(name=target.name), id="definition-unfinished")
    # A %test of the definition takes the place of the base's.
    has_test = definition.has_test(target.text)
    script = apptainer.exec_argv(target.base.path, "cat", "/.singularity.d/test")
    if text := subprocess.run(script, capture_output=True).stdout if has_test else b"":
        path = runtime.temporary / "base-test"
        path.write_bytes(text)
        path.chmod(0o755)
        runtime.test(image, log, instead=path)
