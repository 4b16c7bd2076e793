"""Which steps a plan comes to, and carrying them out one after the other."""

from __future__ import annotations

import fcntl
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from . import pip, process, space, wheels
from .plan import Plan
from .steps import Builder


class Progress(Protocol):
    """Who shows a build to people."""

    def say(self, text: str) -> None:
        """One line."""

    def phase(self, name: str, log: Path | None = None) -> AbstractContextManager[None]:
        """Something that takes long; `log` grows meanwhile."""


@dataclass(frozen=True)
class Step:
    """One result to make."""

    name: str
    needed: bool
    make: Callable[[], None]
    command: Callable[[], list[str]]  # the one that takes long, for people to read
    log: str = ""  # the step's name in the name of its log


def steps(plan: Plan, builder: Builder, source: pip.Source) -> list[Step]:
    """All steps in order; those whose result is there, or is not asked for, are not needed."""
    compiling = not plan.horovod.exists()
    packing = not plan.environment.exists()
    found = [
        Step(
            "wheels",
            (compiling or packing) and not plan.wheels.exists(),
            partial(builder.fetch_wheels, source),
            partial(wheels.command, plan.image, source, plan.wheels),
        ),
        Step(
            "Horovod wheel (3 minutes)",
            compiling,
            builder.compile_horovod,
            lambda: builder.apptainer.argv(builder.horovod_build(plan.horovod)),
            "horovod",
        ),
        Step(
            "environment, with its test",
            packing,
            builder.make_environment,
            lambda: builder.apptainer.argv(builder.environment_build()),
            "environment",
        ),
        Step(
            "image: environment and trainers",
            True,
            builder.make_image,
            lambda: builder.append_command(Path("trainers"), plan.output),
            "image",
        ),
    ]
    if plan.base.kind == "debian":
        found[1:1] = [
            base_step("base to compile in", compiling, plan.wheel_definition, builder),
            base_step("base of the image", packing, plan.definition, builder),
        ]
    return found


def base_step(name: str, wanted: bool, path: Path, builder: Builder) -> Step:
    """Making a base from Debian packages."""
    archive = builder.plan.base_archive(path)
    return Step(
        name,
        wanted and not archive.exists(),
        partial(builder.make_base, path),
        partial(builder.base_command, path, archive),
        f"base-for-{path.stem}",
    )


def outline(todo: Sequence[Step]) -> str:
    """What would be done, as comments, and the commands for it."""
    lines = []
    for number, step in enumerate(todo, start=1):
        lines.append(
            f"# [{number}/{len(todo)}] {step.name}{'' if step.needed else ': nothing to do'}"
        )
        lines += [shlex.join(step.command())] if step.needed else []
    return "\n".join(lines)


def carry_out(todo: Sequence[Step], plan: Plan, progress: Progress) -> None:
    """Make what is needed. Raises BuildError."""
    temporary = plan.places.temporary
    process.empty(temporary)
    large = any(step.needed for step in todo[:-1])
    needs = plan.image.needs if large else plan.image.needs_for_trainers
    for warning in space.require(temporary, needs):
        progress.say(f"warning: {warning}")
    try:
        for number, step in enumerate(todo, start=1):
            make(step, f"[{number}/{len(todo)}] {step.name}", plan, progress)
    finally:
        process.empty(temporary)


def make(step: Step, name: str, plan: Plan, progress: Progress) -> None:
    """Make one step, or say that there is nothing to do."""
    if not step.needed:
        progress.say(f"{name}: nothing to do")
        return
    log = plan.places.logs / f"{plan.image.name}-{step.log}.log" if step.log else None
    with progress.phase(name, log):
        step.make()


@contextmanager
def only_build(folder: Path, progress: Progress) -> Iterator[None]:
    """Wait until no other build uses the same scratch."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"waiting for another build in {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
