"""Tries suggested commands: each is planned with all its options, and those that work are kept.

A refusal knows only what it refuses. What fixes that may be refused for another reason; then
both changes are tried together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core import gpus
from ..core.command_line import CommandLine
from ..core.errors import Refused, RunnerError
from ..core.plan import Caution, Plan
from ..core.progress import Listener
from ..core.remedy import LAUNCH, Remedy, advice, change
from ..settings.table import LISTS, SETTINGS
from . import gather, suggest

SESSIONS = ("shell", "jupyter")
PLANNED = ("launch", "plan", *SESSIONS)  # the commands whose options make a plan
MOST, ATTEMPTS = 3, 16
DRY_RUN, ONLY_SHOW = ("dry-run", True), change(dry_run=True)
BRINGS = ("runner build", "runner pull", "runner push")  # a dry run needs no image


def keep(error: RunnerError, typed: CommandLine) -> None:
    """Keep of an error's remedies those that work."""
    if not error.tried:
        error.remedies, error.tried = tuple(_working(error, typed)), True


def _working(error: RunnerError, typed: CommandLine) -> list[Remedy]:
    """Return the remedies of an error that work, the best first; where none does, why."""
    launches = _launches(error)
    others = [each for each in error.remedies if each.kind != LAUNCH]
    if typed.name not in PLANNED or not launches:
        return list(error.remedies)
    search = _Search(typed)
    works = search.run(launches)
    if works:
        return [*works, *others]
    first, refused = search.refused[0]
    if others and refused.what == error.what:  # it changes nothing of that
        return others
    return [advice(f"{suggest.text(first, typed)}  # refused too: {refused.what}"), *others]


def offer(error: RunnerError, typed: CommandLine) -> None:
    """Put the commands that work, as they are typed, in the place of an error's remedies."""
    keep(error, typed)
    error.remedies = tuple(suggest.resolved(error.remedies, typed))


def refusal(made: Plan, typed: CommandLine) -> RunnerError:
    """Return why a plan is refused, with the commands that work instead."""
    error = suggest.refused(made.refusals)
    offer(error, typed)
    return error


def instead(made: Plan, typed: CommandLine) -> list[Remedy]:
    """Return the commands that work instead of one that is refused; none if it is not."""
    return _working(suggest.refused(made.refusals), typed) if made.refusals else []


def against(caution: Caution, typed: CommandLine) -> list[Remedy]:
    others = [each for each in caution.remedies if each.kind != LAUNCH]
    launches = [each for each in caution.remedies if each.kind == LAUNCH]
    if typed.name not in PLANNED or not launches:
        return list(caution.remedies)
    return [*_Search(typed).run(launches), *others]


def _launches(error: RunnerError) -> list[Remedy]:
    remedies = dict.fromkeys((*error.remedies, *error.single))
    return [each for each in remedies if each.kind == LAUNCH]


class _Search:
    """Tries changes, and where one is refused what its refusal suggests in addition."""

    def __init__(self, typed: CommandLine) -> None:
        self.typed = typed
        self.refused: list[tuple[Remedy, RunnerError]] = []

    def run(self, remedies: Sequence[Remedy]) -> list[Remedy]:
        """Return what works, after at most ATTEMPTS plans."""
        working: dict[object, Remedy] = {}  # by the words that are typed, in whatever order
        left, seen, most = deque(remedies), set(map(_key, remedies)), _most(remedies)
        for _ in range(ATTEMPTS):
            if not left or len(working) == most:
                break
            remedy = left.popleft()
            try:
                works = self._tried(remedy)
                words = suggest.text(works, self.typed).split()
                working.setdefault(tuple(sorted(words)), works)
            except RunnerError as error:
                self.refused.append((remedy, error))
                more = [suggest.then(remedy, each) for each in _launches(error)]
                left += [each for each in more if _key(each) not in seen]
                seen.update(map(_key, more))
        # What changes less, and is ready, comes first.
        ranked = sorted(working.values(), key=lambda each: (bool(each.text), len(_changes(each))))
        typed: dict[str, Remedy] = {}  # what changes in two ways may be the same to type
        for each in ranked:
            typed.setdefault(suggest.text(each, self.typed), each)
        return list(typed.values())

    def _tried(self, remedy: Remedy) -> Remedy:
        """Return a remedy that works, or cannot be tried from here, with what it needs first.

        Raises RunnerError where the command is refused.
        """
        brings = remedy.text.startswith(BRINGS)
        if remedy.cwd or not (brings or (_changes(remedy) and not remedy.text)):
            return remedy
        made = _planned(remedy, self.typed)
        if made.refusals:
            raise suggest.refused(made.refusals)
        is_dry = DRY_RUN in (*self.typed.switches, *remedy.options)
        if made.remote_site and not is_dry:
            raise Refused("jobs of another site are shown here, not submitted", "", ONLY_SHOW)
        another = "image" in dict(remedy.options)
        if " && " in remedy.text or (remedy.text and not another and not is_dry):
            return remedy
        needs = "" if is_dry and not another else made.spec.image.unbuilt
        return replace(remedy, text=needs)


def _planned(remedy: Remedy, typed: CommandLine) -> Plan:
    """Return the plan of the command that a remedy suggests. Raises RunnerError."""
    flags = _flags(remedy, typed)
    if typed.name in SESSIONS:
        from . import sessions  # no launch needs it

        return sessions.planned(typed.name, flags, True, Listener()).plan
    trainer, *args = remedy.trainer or (typed.trainer, *typed.args)
    words = list(suggest.arguments(remedy, args))
    many = any(name in ("array", "sweep") for name, _ in typed.switches)
    return gather.plan(trainer, words, flags, True, Listener(), many)


def _key(remedy: Remedy) -> object:
    return remedy.text, remedy.cwd, frozenset(_changes(remedy))


def _most(remedies: Sequence[Remedy]) -> int:
    """Return how many lines are shown: one for each type of GPU, of which the user knows which."""
    requests = (value for each in remedies for name, value in each.options if name in gpus.SETTINGS)
    return max(MOST, len({gpus.type_of(str(value)) for value in requests} - {""}))


def _changes(remedy: Remedy) -> tuple[object, ...]:
    return (*remedy.options, *remedy.leave_out, *remedy.arguments, *remedy.trainer)


def _flags(remedy: Remedy, typed: CommandLine) -> dict[str, Any]:
    """Return the settings of the command that a remedy suggests, as click gives them."""
    flags: dict[str, Any] = {}
    for name, value in (*remedy.options, *suggest.kept(remedy, typed)):
        if name not in SETTINGS:
            continue
        if name in LISTS:
            flags.setdefault(name, []).append(str(value))
        else:
            kind = SETTINGS[name].kind
            flags[name] = {"int": int, "number": float, "switch": bool}.get(kind, str)(value)
    return flags
