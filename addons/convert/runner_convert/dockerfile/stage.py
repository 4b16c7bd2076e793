"""One image of a Dockerfile: what its instructions have come to so far."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runners.core.diagnosis import Severity
from runners.core.remedy import advice

from ..line_diagnosis import LineDiagnosis
from .parse import SHELL

# Images without a shell: nothing can be run in them.
BARE = re.compile(r"^scratch$|distroless|^cgr\.dev/chainguard/(?!.*-dev)")
# Bases without a working directory of their own.
AT_ROOT = re.compile(
    r"^(?:docker\.io/)?(?:library/)?(?:ubuntu|debian|python|alpine|fedora|almalinux|rockylinux|centos"
    r"|amazonlinux|bash|gcc|rust|scratch)(?:[:@]|$)|nvidia/(?:cuda|opengl)|conda|rocm/dev|mambaorg"
)
STAGED = "/.copied"  # where files lie in an image until %post puts them in their places


def note(id: str, line: int, what: str, remedy: str) -> LineDiagnosis:
    """Return what could not be converted, and what to do."""
    return LineDiagnosis(id, Severity.WARNING, what, remedies=(advice(remedy),), line=line)


@dataclass
class Stage:
    """One image of the Dockerfile."""

    name: str
    base: str
    lines: tuple[int, ...] = ()  # of FROM, its own and those of the stages that it starts from
    arguments: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)  # run on the building machine
    files: list[tuple[str, str]] = field(default_factory=list)
    layers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by stage
    labels: list[tuple[str, str]] = field(default_factory=list)
    install: list[str] = field(default_factory=list)
    environ: list[str] = field(default_factory=list)
    folder: str = "/"
    has_folder: bool = False
    shell: tuple[str, ...] = SHELL
    entrypoint: list[str] | None = None
    command: list[str] | None = None
    has_command: bool = False  # of its own, not of the stage that it starts from
    works: bool = False  # whether anything is done in %post
    copies: int = 0

    @property
    def knows_folder(self) -> bool:
        """Whether the working directory is known: that of WORKDIR, or / of a plain base."""
        return self.has_folder or bool(AT_ROOT.search(self.base))

    @property
    def bare(self) -> bool:
        """Whether there is no shell to run commands in."""
        return bool(BARE.search(self.base)) and not self.works
