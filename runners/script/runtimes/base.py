"""What runs an image, as a row of RUNTIMES, and what its tokens are made from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

from ...core.model import BindMount, Plan
from ...core.tokens import Expanded

PREFIX = "USERENV_"


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
    `prefix` before; with `values_as_options` those that win are among the tokens instead, and a
    value of --env has a name that means nothing to the host's programs, such as the runtime.
    `takes_ssh` says whether variables bring injob/ssh into it. `prepare` is what each node does
    once before the ranks, with the image's name as its last word.
    """

    argv: Callable[[Container], list[str]]
    prefix: str = ""
    by_srun: bool = False
    values_as_options: bool = False
    takes_ssh: bool = False
    prepare: tuple[str, ...] = ()


def own_settings(plan: Plan) -> list[str]:
    """Return NAME=VALUE for each of --env, in which the job's shell fills in the value."""
    return [Expanded(f"{name}=${{{PREFIX}{name}}}") for name, _ in plan.spec.env]


def volume(bind: BindMount) -> str:
    """Return SOURCE:TARGET, with the flag `ro`, as many read it."""
    return f"{bind.source}:{bind.target}" + (":ro" if bind.read_only else "")
