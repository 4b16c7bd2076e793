"""What works instead of a launch that is refused: other settings, with each of which it is solved.

A refusal knows only what it refuses. What fixes that may be refused for another reason; then both
changes are tried together. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from ..core import gpus
from ..core.diagnosis import Diagnosis
from ..core.errors import RunnerError
from ..core.model import JobSpec
from ..core.plan import Plan
from ..core.remedy import LAUNCH, Remedy, together
from ..settings.table import LISTS
from .case import Case
from .solver import solve

MOST, ATTEMPTS = 3, 16
# What they name is looked at before a case is made of it.
LOOKED_AT = frozenset(("image", "data", "runtime", "site", "module", "module-use", "module-purge"))


def with_instead(case: Case, plan: Plan) -> Plan:
    """Return a refused plan with the changes of settings that make the job work, the best first."""
    start = [remedy for remedy in launches(plan.refusals) if is_of_settings(remedy)]
    left, seen, most, found = deque(start), set(start), most_shown(start), list[Remedy]()
    specs: list[JobSpec] = []
    for _ in range(ATTEMPTS):
        if not left or len(found) == most:
            break
        remedy = left.popleft()
        more, spec = _refused(case, remedy)
        if more is None:
            found += [] if spec in specs else [remedy]  # two may come to the same settings
            specs.append(spec)
            continue
        both = [then(remedy, addition) for addition in more if is_of_settings(addition)]
        left += [candidate for candidate in both if candidate not in seen]
        seen.update(both)
    return replace(plan, instead=tuple(sorted(found, key=size)))


def _refused(case: Case, remedy: Remedy) -> tuple[list[Remedy] | None, JobSpec]:
    """Return what is suggested where a change is refused too, None where it works; the request."""
    try:
        changed = case.changed(remedy)
        plan = solve(changed)
    except RunnerError as error:
        return [remedy for remedy in error.remedies if remedy.kind == LAUNCH], case.spec
    return (launches(plan.refusals) if plan.refusals else None), changed.spec


def is_of_settings(remedy: Remedy) -> bool:
    """Whether it changes settings alone, and none of which the files must be looked at."""
    names = {*(name for name, _ in remedy.options), *remedy.leave_out}
    more = remedy.text or remedy.cwd or remedy.arguments or remedy.trainer
    return not more and bool(names) and not names & LOOKED_AT


def size(remedy: Remedy) -> tuple[bool, int]:
    """Return how much it changes: what changes less, and needs nothing before, comes first."""
    changes = (*remedy.options, *remedy.leave_out, *remedy.arguments, *remedy.trainer)
    return bool(remedy.text), len(changes)


def most_shown(remedies: Sequence[Remedy]) -> int:
    """Return how many are shown: one for each type of GPU, of which the user knows which."""
    requests = (
        value for remedy in remedies for name, value in remedy.options if name in gpus.SETTINGS
    )
    return max(MOST, len({gpus.type_of(str(value)) for value in requests} - {""}))


def launches(refusals: Sequence[Diagnosis]) -> list[Remedy]:
    """Return the launches that are suggested: what fixes several faults first, then each alone."""
    alone = [remedy for refusal in refusals for remedy in refusal.remedies]
    both = dict.fromkeys((*combined(refusals), *alone))
    return [remedy for remedy in both if remedy.kind == LAUNCH]


def combined(refusals: Sequence[Diagnosis]) -> list[Remedy]:
    """Return what to do instead, the best first; one command fixes several faults if it can."""
    if len(refusals) > 1:
        first = [refusal.remedies[0] for refusal in refusals if refusal.remedies]
        if len(first) == len(refusals) and all(remedy.kind == LAUNCH for remedy in first):
            return [reduce(then, first)]
    return [remedy for refusal in refusals for remedy in refusal.remedies]


def then(first: Remedy, second: Remedy) -> Remedy:
    """Return both changes, the second winning."""
    again = {name for name, _ in second.options} - LISTS | set(second.leave_out)
    kept = tuple(pair for pair in first.options if pair[0] not in again)
    return together([replace(first, options=kept), second])
