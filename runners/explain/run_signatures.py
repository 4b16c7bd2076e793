"""Failures that a run's facts tell: `signatures/run/*.toml`, whose conditions are fields.

An entry says when it fits, what happened and what to do. Of entries that follow each other with one
name and one precedence the first that fits speaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Callable

from ..contract.world_causes import ON_PURPOSE
from ..core.diagnosis import Certainty
from ..core.errors import UsageError
from ..core.remedy import Remedy, Value, advice, change
from ..core.toml_check import Rule, check, convert, one_of
from ..settings.config_files import read_toml
from ..settings.table import SETTINGS
from . import ended_by_slurm, fixes, run_fixes
from .explanation import Explanation, Signature
from .facts import Facts, LogPattern
from .findings import (
    RANK_REPORTS,
    as_sure_as_told,
    finding,
    host,
    own_code,
    record_of,
    who,
)
from .run_conditions import MPI_SAYS_WHY, NONE, SIGNAL, Conditions, signal_name
from .sentences import inside, typed, whole, worded

FOLDER = Path(__file__).parent / "signatures" / "run"
SHOWN: Mapping[str, Callable[[Facts, int], tuple[object, ...]]] = {
    "record": lambda facts, _: record_of(facts),
    "code": lambda facts, _: own_code(facts),
    "evidence": lambda facts, _: tuple(facts.fields.get("evidence", ())),
    "reason": lambda facts, _: (facts.reason,),
    "errors": lambda facts, count: facts.log.errors[:count],
    "last": lambda facts, count: facts.log.last[-count:],
}


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _is_shown(text: str) -> bool:
    name, _, count = text.partition(" ")
    return name in SHOWN and bool(count.isdigit()) is (name in ("errors", "last"))


REGEX = Rule("a regular expression", _is_regex)
EVIDENCE = Rule(f"one of {', '.join(SHOWN)}, the last two with a number of lines", _is_shown)
OPTION = Rule("an option of the launch", {*SETTINGS, "force"}.__contains__)
REMEDY = one_of(*fixes.REMEDIES, *run_fixes.OF_FACTS, *run_fixes.OF_FOUND)


@dataclass(frozen=True)
class RunSignature:
    """An entry: all of `when` holds and none of `unless`, and `match` is in the rank's own error.

    `signals` are those of which one ended the rank, each with what it means. `cause`, `advice`
    and `first` may have {NAME}: see `_words`. `first` is a line for the shell before the
    launch with `change` and without `leave_out`; `remedy` is a name of `fixes` or `run_fixes`.
    Without `because` the rank's own error reports it. One `of_job` is what Slurm says of the job's
    end, and about no rank.
    """

    id: str
    precedence: int
    cause: str
    certainty: Certainty
    when: Conditions = NONE
    unless: Conditions = NONE
    match: Annotated[str, REGEX] = ""
    signals: dict[str, str] = field(default_factory=dict)
    because: str = ""
    show: tuple[Annotated[str, EVIDENCE], ...] = ("record",)
    of_job: bool = False
    first: str = ""
    change: dict[str, Value] = field(default_factory=dict)
    leave_out: tuple[Annotated[str, OPTION], ...] = ()
    advice: str = ""
    remedy: Annotated[str, REMEDY] = ""

    @property
    def patterns(self) -> tuple[LogPattern, ...]:
        """What it looks for in the log."""
        return (*self.when.line, *self.unless.line)


def read(file: Path) -> tuple[RunSignature, ...]:
    """Return the entries of a file. Raises UsageError for what is no entry, with all its faults."""
    table = read_toml(file)
    if table.keys() != {"signature"}:
        raise UsageError(
            f"{file.name} has {', '.join(table) or 'nothing'} in place of signature",
            id="signature-table-unknown",
        )
    for number, row in enumerate(table["signature"], 1):
        check(f"{file.name}, {row.get('id', f'entry {number}')}", RunSignature, row)
    of_file: tuple[RunSignature, ...] = convert(tuple[RunSignature, ...], table["signature"])
    for entry in of_file:
        for fault in _faults(entry):
            raise UsageError(f"{file.name}, {entry.id}: {fault}", id="signature-invalid")
    return of_file


def _faults(entry: RunSignature) -> Iterator[str]:
    """Yield what is wrong in an entry of which each field is right."""
    ways = (entry.remedy, entry.advice, entry.first or entry.change or entry.leave_out)
    if sum(map(bool, ways)) != 1:
        yield "it needs one remedy: remedy, advice, or first, change and leave_out"
    yield from (f"{name} is no option of the launch" for name in {*entry.change} - {*SETTINGS})
    yield from (f"{name} is no signal" for name in entry.signals if not SIGNAL.holds(name))
    wrong = (line.pattern for line in entry.patterns if not _is_regex(line.pattern))
    yield from (f"{pattern} is no regular expression" for pattern in wrong)


def entries() -> Iterator[RunSignature]:
    """Yield all entries, by the order of the files' names."""
    return chain.from_iterable(read(file) for file in sorted(FOLDER.glob("*.toml")))


def signatures() -> Iterator[Signature]:
    """Yield what the files have, those of one name and precedence as one."""
    by_name = groupby(entries(), lambda entry: (entry.id, entry.precedence))
    for (name, precedence), of_name in by_name:
        chosen = tuple(of_name)
        patterns = tuple(chain.from_iterable(entry.patterns for entry in chosen))
        judge = partial(first_that_fits, chosen)
        yield Signature(name, judge, precedence, (*patterns, *MPI_SAYS_WHY))


def first_that_fits(chosen: tuple[RunSignature, ...], facts: Facts) -> Explanation | None:
    """Return what the first entry says whose conditions hold."""
    for entry in chosen:
        found = re.search(entry.match, facts.error)
        meaning = entry.signals.get(signal_name(facts), "")
        if found is None or (entry.signals and not meaning):
            continue
        if all(entry.when.holding(facts)) and not any(entry.unless.holding(facts)):
            return told(entry, facts, found, meaning)
    return None


def told(entry: RunSignature, facts: Facts, found: re.Match[str], meaning: str) -> Explanation:
    seen = [*filter(None, map(facts.match, entry.when.line))][:1]
    words = {**_words(facts), "meaning": meaning}
    for match in (found, *(match for _, match in seen)):
        words.update(match.groupdict(""))
    cause, fix = whole(worded(entry.cause, facts.has_image), words), _remedy(entry, facts, words)
    certainty, because = entry.certainty, entry.because
    if entry.of_job:
        return ended_by_slurm.ended(facts, cause, fix, because=because)
    if not because:
        certainty, because = as_sure_as_told(facts, certainty, RANK_REPORTS)
    shown = chain.from_iterable(_shown(name, facts) for name in entry.show)
    evidence = (*shown, *(line for line, _ in seen))
    return finding(cause, evidence, fix, certainty, because)


def _shown(name: str, facts: Facts) -> tuple[object, ...]:
    kind, _, count = name.partition(" ")
    return SHOWN[kind](facts, int(count or 0))


def _words(facts: Facts) -> dict[str, str]:
    """Return what sentences may name besides the groups of their expressions."""
    in_record = {
        name: str(told)
        for name, told in facts.fields.items()
        if not isinstance(told, (list, tuple))
    }
    return {
        **in_record,
        "who": who(facts),
        "host": host(facts),
        "image": facts.image,
        "error": facts.error,
        "how": facts.how,
        "reason": facts.reason,
        "since": fixes.since(facts),
        "mpi": facts.plan.mpi or "none",
        "interfaces": ",".join(facts.plan.network.interfaces),
        "signal": signal_name(facts),
        "on_purpose": ON_PURPOSE,
    }


def _remedy(entry: RunSignature, facts: Facts, words: Mapping[str, str]) -> Remedy:
    if entry.remedy in run_fixes.OF_FOUND:
        return run_fixes.OF_FOUND[entry.remedy](facts, words)
    if entry.remedy:
        of_facts = {**fixes.REMEDIES, **run_fixes.OF_FACTS}[entry.remedy]
        return of_facts(facts) or fixes.logs(facts)
    if entry.advice:
        return advice(whole(entry.advice, words))
    options = {name: inside(value, words) for name, value in entry.change.items()}
    return change(options, leave_out=entry.leave_out, first=typed(entry.first, words))
