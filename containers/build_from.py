"""Builds an image from another: with more Python packages, or with a definition of the user's."""

from __future__ import annotations

import datetime
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import (
    added_packages,
    apptainer,
    build_definition,
    definition,
    derived_definition,
    digest,
    pip,
    sif,
)
from .added_packages import Request
from .apptainer import Apptainer
from .build_definition import OneDefinition
from .derived_definition import Base
from .errors import SystemFault

STAGE = "stage"  # the folder of a derived build's files, in the temporary one
SAFE_NAME = re.compile(r"[\w.+-]+")
UNFINISHED = """\
the %post of {name} ended before its last line, so labels and bill of materials are not renewed.
Does it call 'exit'? Leave that out, or put what may end early in parentheses: ( ... )"""


@dataclass(frozen=True)
class Derived:
    """What surrounds the build of a derived image."""

    base: Base
    name: str  # of the definition or requirements
    request: Request | None
    own_test: bool  # whether the definition has a %test, which takes the place of the base's

    def before(self, runtime: Apptainer, temporary: Path, log: Path) -> None:
        """Fill the folder that the build binds. Raises RunnerError."""
        stage, asking = temporary / STAGE, temporary / "asking"
        stage.mkdir()
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        labels = derived_definition.render_labels(derived_definition.labels(self.base, now))
        (stage / "labels").write_text(labels, encoding="utf-8")
        if self.request:
            asking.mkdir()
            self.request.fetch(runtime, asking, stage, log)

    def after(self, runtime: Apptainer, image: Path, log: Path) -> None:
        """The base must be named, and its own test must still pass. Raises RunnerError."""
        named = (sif.labels(image) or {}).get(derived_definition.DIGEST_LABEL)
        if named != f"sha256:{self.base.digest}":
            raise SystemFault(UNFINISHED.format(name=self.name))
        script = _test_of(self.base.path) if self.own_test else b""
        if script:
            path = runtime.temporary / "base-test"
            path.write_bytes(script)
            path.chmod(0o755)
            runtime.test(image, log, instead=path)


def _test_of(image: Path) -> bytes:
    """The image's own %test; empty when it has none."""
    script = ["cat", "/.singularity.d/test"]
    command = ["apptainer", "exec", "--cleanenv", str(image), *script]
    return subprocess.run(command, capture_output=True).stdout


def read_base(path: Path, labels: Mapping[str, str]) -> Base:
    """The base with its digest, for which the whole file is read."""
    return Base(path, digest.sha256(path), labels, path.stat().st_size)


def with_packages(
    base: Base, requirements: Path, source: pip.Source, output: Path, ca: Path | None
) -> OneDefinition:
    """The base with what a requirements file asks for. Raises RunnerError."""
    apptainer.require()
    link = base.path.name if SAFE_NAME.fullmatch(base.path.name) else "base.sif"
    inside = added_packages.find_python(base)
    request = Request(base, inside, requirements.absolute(), source, ca)
    return OneDefinition(
        text=derived_definition.with_packages(link, inside.python),
        name=requirements.name,
        folder=None,
        output=output,
        files={link: base.path},
        binds={STAGE: derived_definition.STAGE},
        needs=derived_definition.needs(base),
        ca=ca,
        around=Derived(base, requirements.name, request, own_test=False),
    )


def with_definition(
    base: Base, path: Path, given: Mapping[str, str], output: Path, ca: Path | None
) -> OneDefinition:
    """The user's definition on top of the base. Raises UsageError."""
    text = build_definition.read(path)
    return OneDefinition(
        text=derived_definition.with_definition(base, text, path.name, given),
        name=path.name,
        folder=path.absolute().parent,
        output=output,
        given=given,
        binds={STAGE: derived_definition.STAGE},
        needs=derived_definition.needs(base),
        ca=ca,
        around=Derived(base, path.name, None, definition.has_section(text, "test")),
    )
