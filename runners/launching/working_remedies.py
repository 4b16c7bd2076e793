"""What is suggested in the place of a launch that is refused: only commands that were tried.

Other settings the solver has tried. What names another image or dataset, gives other arguments,
changes the folder or runs a command first is planned here as the whole command that it is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..core.command_line import CommandLine
from ..core.diagnosis import Diagnosis
from ..core.errors import RunnerError
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import LAUNCH, Remedy, advice, change
from ..planning import search
from ..settings import suggest
from . import at_once, gather

SESSIONS = ("shell", "jupyter")
PLANNED = ("launch", "plan", *SESSIONS)  # the commands whose options make a plan
DRY_RUN, ONLY_SHOW = ("dry-run", True), change(dry_run=True)
BRINGS = ("runner build", "runner pull", "runner push")  # a dry run needs no image
MADE_FIRST = ("image", "data")  # what a command makes that runs first


def keep(error: RunnerError, typed: CommandLine) -> None:
    """Keep of an error's remedies those that work."""
    if not error.tried:
        error.change(remedies=tuple(_offered(error, typed)))
        error.tried = True


def offer(error: RunnerError, typed: CommandLine) -> None:
    """Put the commands that work, as they are typed, in the place of an error's remedies."""
    keep(error, typed)
    error.change(remedies=tuple(suggest.resolved(error.remedies, typed)))


def refused(made: Plan, typed: CommandLine) -> RunnerError:
    """Return why a plan is refused, with the changes that work instead."""
    error = at_once.refused(made.refusals)
    error.change(remedies=tuple(instead(made, typed)))
    error.tried = True
    return error


def instead(made: Plan, typed: CommandLine) -> list[Remedy]:
    """Return what works instead of a plan that is refused; none if it is not."""
    if not made.refusals:
        return []
    found = [_ready(remedy, made, typed) for remedy in made.instead]
    return _offered(at_once.refused(made.refusals), typed, found)


def against(warning: Diagnosis, typed: CommandLine) -> list[Remedy]:
    """Return what works against a warning of a plan, in the order of the warning.

    What changes least may only end the warning, as --gpus-per-node 0 does.
    """
    error = RunnerError(warning.what, "", warning.remedies, id=warning.id)
    return [
        remedy
        for remedy in _offered(error, typed, rank=_as_given)
        if remedy.kind == LAUNCH or remedy in warning.remedies
    ]


def _as_given(_: Remedy) -> tuple[bool, int]:
    return False, 0


def _offered(
    error: RunnerError,
    typed: CommandLine,
    solved: Sequence[Remedy] | None = None,
    rank: Callable[[Remedy], tuple[bool, int]] = search.size,
) -> list[Remedy]:
    """Return what works of an error's remedies, the lowest `rank` first; where none does, why.

    Where the solver has tried changes of settings, `solved` are those that work.
    """
    alone = (remedy for fault in error.faults for remedy in fault.remedies)
    launches = [
        remedy for remedy in dict.fromkeys((*error.remedies, *alone)) if remedy.kind == LAUNCH
    ]
    if typed.name not in PLANNED or not launches:
        return list(error.remedies)
    others = [remedy for remedy in error.remedies if remedy.kind != LAUNCH]
    found, why, most = list[Remedy](), "", search.most_shown(launches)
    for remedy in launches:
        if len(found) < most and not (solved is not None and search.is_of_settings(remedy)):
            works, reason = _checked(remedy, error, typed)
            found += works
            if not why and (reason != error.what or not others):  # else it changes nothing of that
                why = f"{suggest.text(remedy, typed)}  # refused too: {reason}"
    settings = _ranked(solved or (), typed, rank)[: most - bool(found)]
    works = _ranked([*settings, *_ranked(found, typed, rank)], typed, rank)[:most]
    return [*works, *([advice(why)] if why and not works else []), *others]


def _ranked(
    found: Sequence[Remedy], typed: CommandLine, rank: Callable[[Remedy], tuple[bool, int]]
) -> list[Remedy]:
    """Return the lowest `rank` first; of two that are typed in the same words one."""
    lines: dict[object, Remedy] = {}
    for remedy in sorted(found, key=rank):
        lines.setdefault(tuple(sorted(suggest.text(remedy, typed).split())), remedy)
    return list(lines.values())


def _checked(remedy: Remedy, error: RunnerError, typed: CommandLine) -> tuple[list[Remedy], str]:
    """Return what works: a change, or with it what the solver adds. Else what is refused."""
    try:
        made = _planned(remedy, typed, _fixed_first(remedy, error))
    except RunnerError as problem:
        return [], problem.what
    if not made.refusals:
        return [_ready(remedy, made, typed)], ""
    both = [search.then(remedy, alternative) for alternative in made.instead]
    return [_ready(remedy, made, typed) for remedy in both], made.refusals[0].what


def _fixed_first(remedy: Remedy, error: RunnerError) -> frozenset[str]:
    """Return the faults that a command fixes that runs before a launch, each by its sentence.

    Several may have one id, of which a command fixes one.
    """
    if not remedy.text or remedy.text.startswith(BRINGS):
        return frozenset()
    alone = frozenset(fault.what for fault in error.faults if remedy in fault.remedies)
    return alone or frozenset((error.what, *(fault.what for fault in error.faults)))


def _planned(remedy: Remedy, typed: CommandLine, fixed: frozenset[str] = frozenset()) -> Plan:
    """Return the plan of the command that a remedy suggests. Raises RunnerError.

    What a command makes that runs before it is not there yet: the faults that it fixes are passed
    over.
    """
    if fixed:
        options = [pair for pair in remedy.options if pair[0] not in MADE_FIRST]
        leave_out = [name for name in remedy.leave_out if name not in MADE_FIRST]
        remedy = replace(remedy, text="", options=tuple(options), leave_out=tuple(leave_out))
    with _within(remedy.cwd):
        made = _made(remedy, typed)
    refusals = tuple(refusal for refusal in made.refusals if refusal.what not in fixed)
    return replace(made, refusals=refusals)


def _made(remedy: Remedy, typed: CommandLine) -> Plan:
    flags = suggest.flags(remedy, typed)
    if typed.name in SESSIONS:
        return gather.session(typed.name, flags, True, Listener())[0]
    trainer, *args = remedy.trainer or (typed.trainer, *typed.args)
    words = list(suggest.arguments(remedy, args))
    many = any(name in ("array", "sweep") for name, _ in typed.switches)
    return gather.plan(trainer, words, flags, True, Listener(), many)


@contextlib.contextmanager
def _within(folder: str) -> Iterator[None]:
    """Be in a folder, "" for the present one: relative paths of the command are then of it."""
    before = os.getcwd()
    try:
        if folder:
            os.chdir(folder)
        yield
    finally:
        os.chdir(before)


def _ready(remedy: Remedy, made: Plan, typed: CommandLine) -> Remedy:
    """Return a change that works with what it needs first, such as the image's build."""
    is_dry = DRY_RUN in (*typed.switches, *remedy.options)
    if made.remote_site and not is_dry:  # its jobs are shown here, not submitted
        remedy, is_dry = search.then(remedy, ONLY_SHOW), True
    another = "image" in dict(remedy.options)
    is_own = remedy.text and not remedy.text.startswith(BRINGS)
    if is_own or " && " in remedy.text or (remedy.text and not another and not is_dry):
        return remedy
    return replace(remedy, text="" if is_dry and not another else made.spec.image.unbuilt)
