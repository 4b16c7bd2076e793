"""Which steps a plan comes to, and carrying them out one after the other."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import keys, pip, process
from .places import require_space
from .plan import Plan
from .steps import Builder


@dataclass(frozen=True)
class Step:
    """One result to make."""

    name: str
    needed: bool
    make: Callable[[], None]


def steps(plan: Plan, builder: Builder, source: pip.Source) -> list[Step]:
    """All steps in order; those whose result is there, or is not asked for, are not needed."""
    fetch = partial(builder.fetch_wheels, source)
    compiling = not plan.horovod.exists()
    unpacking = compiling or not builder.only_trainers_changed()
    found = [
        Step("wheels", unpacking and not plan.wheels.exists(), fetch),
        Step("Horovod wheel (about 5 minutes)", compiling, builder.compile_horovod),
        Step("image, with its test", True, builder.make_image),
    ]
    if plan.base.kind == "debian":
        found[1:1] = [
            base_step("base to compile in", compiling, plan.wheel_definition, builder),
            base_step("base of the image", unpacking, plan.definition, builder),
        ]
    return found


def base_step(name: str, wanted: bool, definition: Path, builder: Builder) -> Step:
    """Making a base from Debian packages."""
    missing = not builder.plan.base_archive(definition).exists()
    make = partial(builder.make_base, definition, keys.packages(definition))
    return Step(name, wanted and missing, make)


def carry_out(todo: Sequence[Step], plan: Plan) -> None:
    """Make what is needed. Raises BuildError."""
    temporary = plan.places.temporary
    process.empty(temporary)
    require_space(temporary)
    try:
        for number, step in enumerate(todo, start=1):
            report(f"[{number}/{len(todo)}] {step.name}", step)
    finally:
        process.empty(temporary)


def report(name: str, step: Step) -> None:
    """Make one step, saying what happens and how long it took."""
    if not step.needed:
        say(f"{name}: nothing to do")
        return
    say(f"{name} ...")
    began = time.monotonic()
    step.make()
    say(f"{name}: {time.monotonic() - began:.0f} s")


@contextmanager
def only_build(folder: Path) -> Iterator[None]:
    """Wait until no other build uses the same scratch."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build in {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)
