"""What runs an image, as a row of RUNTIMES, and what its tokens are made from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from ...core import tokens
from ...core.job_record import JobPaths
from ...core.model import BindMount
from ...core.plan import Plan
from ...core.tokens import Expanded

# The variable that stands before the names in the file of --env; unset where a container reads it.
PREFIX = "RUNNER_PREFIX"


@dataclass(frozen=True)
class Container:
    """What is to be in the container; `fixed` are the variables that win within it."""

    plan: Plan
    binds: tuple[BindMount, ...]
    fixed: Mapping[str, str]

    @property
    def own_arguments(self) -> tuple[str, ...]:
        return (*self.plan.runtime_args, *self.plan.spec.apptainer_args)


@dataclass(frozen=True)
class Runtime:
    """What runs an image.

    `argv` returns the tokens before a command: none where it runs on the host; with `by_srun` they
    are options of srun. The variables for the container are exported under their names with
    `prefix` before; with `values_as_options` those that win are among the tokens instead, and the
    values of --env reach the command by their file (`own_values`). `takes_ssh` says whether
    variables bring the ssh of injob/ssh.py into it. `prepare` is what each node does once before
    the ranks, with the image's name as its last word.
    """

    argv: Callable[[Container], list[str]]
    prefix: str = ""
    by_srun: bool = False
    values_as_options: bool = False
    takes_ssh: bool = False
    prepare: tuple[str, ...] = ()


def own_values(plan: Plan) -> list[str]:
    """Return the tokens before a command in the container that give it the variables of --env.

    They are read from their file: every user of a node sees the command lines on it.
    """
    if not plan.spec.env:
        return []
    return ["sh", "-c", '. "$0" && exec "$@"', Expanded(JobPaths(Path("$run")).env)]


def volume(bind: BindMount) -> str:
    """Return SOURCE:TARGET, with the flag `ro`, as many read it."""
    return f"{tokens.path(bind.source)}:{bind.target}" + (":ro" if bind.read_only else "")
