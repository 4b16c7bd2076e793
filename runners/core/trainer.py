"""What each rank runs: the trainer, a profiler around it, and Horovod as it is tuned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..contract.enums import ProcessGroup, WordEnum


class Framework(WordEnum):
    """What a packaged trainer needs, by the names of its preset and of Horovod's label."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"

    @property
    def package(self) -> str:
        return "torch" if self is Framework.PYTORCH else self.value


@dataclass(frozen=True)
class Trainer:
    """What each rank runs, and its arguments: a recipe's module, a file of Python's, or a program.

    `name` is for people and the default job name, `typed` is how it was named on the command line.
    A `program` is the image's; then `file` is one here that its arguments name, if any. `world` is
    what creates the process group of a recipe or its copy, where known, `seen_world` what the
    source of a file or a command seems to use, for people only. `uses_recipes`: a file imports what
    recipes share; `imports` are the frameworks that it cannot do without.
    """

    name: str
    module: str | None
    file: Path | None
    args: tuple[str, ...] = ()
    requires: Framework | None = None
    uses_recipes: bool = False
    typed: str = ""
    program: str = ""
    world: ProcessGroup | None = None
    seen_world: ProcessGroup | None = None
    imports: tuple[str, ...] = ()

    @property
    def is_alone(self) -> bool:
        """Whether it is one process, which trains no network."""
        return self.world is ProcessGroup.NONE

    @property
    def has_ranks(self) -> bool:
        """Whether it can be several processes; a session is none."""
        return bool(self.command) and not self.is_alone

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command on each rank; none where a session stands in its place."""
        file = self.program or self.file
        start = ("-m", self.module) if self.module else (str(file),) if file else ()
        return (*start, *self.args)


@dataclass(frozen=True)
class Profiling:
    """A profiler's `command` around the trainer of some `ranks`, as they are typed (`0,2-3`, all).

    `tool` is its file on this machine, "" for none; `folders` are what that needs of it.
    """

    command: str
    ranks: str
    tool: str = ""
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuning:
    """How Horovod is tuned, by horovodrun's own options; None is "not asked".

    `timeline` is an absolute path, or the name of a file in the run's folder.
    """

    timeline: str | None = None
    autotune: bool = False
    fusion_threshold_mb: int | None = None
    cycle_time_ms: float | None = None
    start_timeout: int | None = None
