"""Failures of other people's programs, known by their messages: `signatures/*.toml`, one reader.

A signature is an entry of a file: regular expressions that are all found in a text, what happened,
how to fix it, and who can. The keys are the fields of `MessageSignature`, explained in
docs/contributing.md.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..contract import failure_kinds as kinds
from ..contract.failure_kinds import FailureKind
from ..core import toml_check
from ..core.diagnosis import Certainty
from ..core.model import SchedulerName
from ..core.remedy import Remedy, advice, change, shell_line
from ..settings.config_files import read_toml
from .explanation import (
    ADMINISTRATOR,
    AUTHOR,
    NOBODY,
    SURENESS,
    Candidate,
    Explanation,
    Precedence,
)
from .facts import Facts
from .findings import as_sure_as_told, finding, host, own_code, record_of, signal_of, user_line, who
from .first_failure import as_logged
from .fixes import REMEDIES, edit, exclude, logs
from .path_owners import that_can_be_done
from .searched_text import Text, compiled, text_of, words_needed
from .sentences import filled, inside, typed, worded

TEXTS = ("cause", "because", "tell", "command")
FOLDER = Path(__file__).parent / "signatures"
DIGITS = "123456789"  # of names in several alternatives of one expression, such as path and path2
BECAUSE = {
    Certainty.CERTAIN: "no other failure is known to have this message",
    Certainty.LIKELY: "this message is known, and now and then has another cause",
    Certainty.UNSURE: "this message is known, and has several causes",
}
# How a rank's process ended of itself, and not because another had. Of all other kinds the shim
# knows more than any message.
ENDED = (
    None,
    FailureKind.EXIT,
    FailureKind.EXCEPTION,
    FailureKind.SIGNAL,
    FailureKind.IN_INIT,
    FailureKind.RENDEZVOUS,
)
# How one ends that may have said nothing itself
WITHOUT_WORDS = (FailureKind.EXIT, FailureKind.SIGNAL, FailureKind.NOT_MET)
OPTIONAL = "a program may do without what it could not import"
# Options that only a run with an image has, and those of a job that sbatch submits
OF_IMAGES = {"image", "stage-image", "bind", "apptainer-arg", "host-mpi"}
OF_SBATCH = {"sbatch-arg"}


@dataclass(frozen=True)
class MessageSignature:
    """A signature: `match` are all found in the text that `where` names, and none of `unless` is.

    `cause`, `fix` and `tell` may have {NAME} of a named group, {0} for what the first expression
    found, {who}, {host}, {image}, {user}, {job} and {error}; in the file also the names of WORDS.
    `change` and `leave_out` are options of the launch, `command` is a line for the shell, `remedy`
    a name of REMEDIES. `about` is the file's. One that `follows` says that an unknown task failed
    first: not where a rank recorded it. `precedence` is its place among all signatures.
    """

    id: str
    match: tuple[str, ...]
    cause: str
    fix: tuple[str, ...]
    certainty: Certainty
    fixed_by: str
    source: str
    examples: tuple[str, ...]
    where: str = "any"
    unless: tuple[str, ...] = ()
    tell: str = ""
    not_for: tuple[str, ...] = ()
    because: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)
    leave_out: tuple[str, ...] = ()
    command: str = ""
    remedy: str = ""
    precedence: int = Precedence.MESSAGE
    follows: bool = False
    about: str = ""

    @property
    def general(self) -> bool:
        """Whether it only repeats what a program said, where nothing else knows it."""
        return self.precedence >= Precedence.MESSAGE_BEFORE_CRASH


NEEDED = ("id", "match", "cause", "fix", "certainty", "fixed_by", "source", "example")
KEYS = frozenset(key.name for key in fields(MessageSignature)) - {"where", "examples", "about"}
KEYS |= {"in", "example"}


@dataclass(frozen=True)
class Match:
    """An entry that fits, where its first sign begins, and what its expressions named."""

    entry: MessageSignature
    at: int
    found: str
    named: Mapping[str, str]


@cache
def entries(has_image: bool = True, by_sbatch: bool = True) -> tuple[MessageSignature, ...]:
    """Return all signatures, by the order of the files' names, as they read for such a job."""
    files = sorted(FOLDER.glob("*.toml"))
    return tuple(entry for file in files for entry in _read(file, has_image, by_sbatch))


def _read(file: Path, has_image: bool, by_sbatch: bool) -> Iterator[MessageSignature]:
    has = ("image" if has_image else "environment", *(["sbatch"] if by_sbatch else []))
    lacking = (set() if has_image else OF_IMAGES) | (set() if by_sbatch else OF_SBATCH)
    for row in read_toml(file)["signature"]:
        where = f"{file.name}, {row.get('id', 'an entry without id')}"
        precedence = row.get("precedence", Precedence.MESSAGE)
        faults = toml_check.faults(int, precedence, "precedence")
        toml_check.refuse(where, [*toml_check.wrong_keys(row, KEYS, NEEDED), *faults])
        row.update({name: _said(row.get(name, ""), has) for name in TEXTS})
        row["fix"] = [said for step in row["fix"] if (said := _said(step, has))]
        if not lacking.isdisjoint(row.get("change", {})):
            del row["change"]
        example = row.pop("example")
        row["examples"] = [example] if isinstance(example, str) else example
        row["where"], row["certainty"] = row.pop("in", "any"), Certainty(row["certainty"])
        row.update({key: tuple(value) for key, value in row.items() if isinstance(value, list)})
        yield MessageSignature(**row, about=file.stem)


def _said(text: str | Mapping[str, str], has: Collection[str]) -> str:
    """Return a text, or of several the one for what the job has, in its words; "" for none."""
    if not isinstance(text, str):
        text = next((text[name] for name in has if name in text), "")
    return worded(text, "image" in has)


def matches(text: Text, of: Sequence[MessageSignature] = ()) -> list[Match]:
    """Return all entries that fit."""
    of = of or entries()
    texts = {where: text.of(where) for where in {entry.where for entry in of}}
    fit = (_match(entry, texts[entry.where]) for entry in of)
    return list(filter(None, fit))


def _match(entry: MessageSignature, text: str) -> Match | None:
    matches = []
    for pattern in entry.match:
        possible = any(word in text for word in words_needed(pattern))
        match = compiled(pattern).search(text) if possible else None
        if match is None:
            return None
        matches.append(match)
    if any(compiled(pattern).search(text) for pattern in entry.unless):
        return None
    groups = {"0": matches[0][0]}
    for match in matches:
        groups.update(match.groupdict(""))
    named = {name.rstrip(DIGITS) or name: "" for name in groups}
    named.update((name.rstrip(DIGITS) or name, value) for name, value in groups.items() if value)
    return Match(entry, min(match.start() for match in matches), matches[0][0], named)


def candidates(facts: Facts) -> Iterator[Candidate]:
    """Yield what each entry that fits says: of the rank's own error, else of the log."""
    follows = facts.record is not None and facts.record.follower  # what the other said is the cause
    if not follows and facts.kind not in ENDED:
        return
    text = text_of(facts)
    by_slurm = facts.job.scheduler == SchedulerName.SLURM
    fit = matches(text, entries(facts.has_image, by_slurm))
    if facts.record is None or facts.record.guessed:
        fit = _not_of_followers(fit, text, facts)
    elif facts.kind == FailureKind.EXIT:
        fit = [match for match in fit if not match.entry.follows]
    for match in fit:
        entry = match.entry
        yield Candidate(
            _explanation(match, text, facts),
            entry.precedence,
            declared=entry.certainty,
            expressions=len(entry.match),
            at=match.at,
        )


def _not_of_followers(fit: list[Match], text: Text, facts: Facts) -> list[Match]:
    """Return what lines say of the failure itself, not of ranks that only lost another by it.

    Where nothing says more, neither the log's exception nor another entry as particular or as
    general, the ranks that lost another are all that is known.
    """
    of_failure = [
        match
        for match in fit
        if not any(kinds.of_lost_peer(line.text) for line in text.lines_with(match.found))
    ]
    first = as_logged(facts.first, facts.log)
    error = first.record.error if first and first.record else ""
    if error and not kinds.of_lost_peer(error):
        return of_failure
    known = {match.entry.general for match in of_failure}
    return [*of_failure, *(match for match in fit if match.entry.general not in known)]


def _explanation(match: Match, text: Text, facts: Facts) -> Explanation:
    entry = match.entry
    known = {"who": who(facts), "host": host(facts), "image": facts.image, "user": facts.user}
    named = {**known, "job": facts.job.id, "error": facts.error, **match.named}
    lines = text.lines_with(match.found)
    because = entry.because or BECAUSE[entry.certainty]
    certainty, because = _as_sure(match, text, facts, because)
    steps = tuple(filled(step, named) for step in entry.fix)
    steps = that_can_be_done(steps, match.named.values())
    in_words = advice("\n".join(steps)) if steps else logs(facts)
    evidence = (*record_of(facts), *own_code(facts), *lines)
    fix = _remedy(entry, named, facts) or in_words
    return replace(
        finding(filled(entry.cause, named), evidence, fix, certainty, because),
        id=entry.id,
        steps=steps,
        fixed_by=entry.fixed_by,
        tell=_tell(entry, named),
        host=named.get("node", ""),
    )


def _as_sure(match: Match, text: Text, facts: Facts, because: str) -> tuple[Certainty, str]:
    """Return how sure it is, and why: less where a rank ended without an error of its own.

    A line of its log may be of something that it survived, and nothing in it sends SIGKILL; who
    aborts has said why.
    """
    certainty, ended = match.entry.certainty, signal_of(facts)
    silent = facts.kind in WITHOUT_WORDS and not facts.error
    if not facts.record:
        silent = any(line.rank is not None for line in text.lines_with(match.found))
    if not silent or match.found in text.error or ended == signal.SIGABRT:
        if certainty == Certainty.CERTAIN and text.survivable(match.found):
            return Certainty.LIKELY, OPTIONAL
        return as_sure_as_told(facts, certainty, because)
    unsure = ended == signal.SIGKILL or match.entry.general
    most = Certainty.UNSURE if unsure else Certainty.LIKELY
    if SURENESS.index(most) <= SURENESS.index(certainty):
        return certainty, because
    return most, "its log has this line, and it ended without an error of its own"


def _remedy(entry: MessageSignature, named: Mapping[str, str], facts: Facts) -> Remedy | None:
    """Return the command that fixes it; None where there is none but advice."""
    remedy = REMEDIES[entry.remedy](facts) if entry.remedy else None
    if remedy:
        return remedy
    if entry.command:
        return shell_line(typed(entry.command, named))
    if entry.change or entry.leave_out:
        options = {name: inside(value, named) for name, value in entry.change.items()}
        if facts.resources.wants_gpus:  # no fewer than were asked for
            options.pop("gpus-per-node", None)
        return change(options, leave_out=entry.leave_out) if options or entry.leave_out else None
    if entry.fixed_by == NOBODY:
        return change(exclude=named["node"]) if named.get("node") else exclude(facts)
    return edit(facts) if entry.fixed_by == AUTHOR and user_line(facts) else None


def _tell(entry: MessageSignature, named: Mapping[str, str]) -> str:
    if entry.tell or entry.fixed_by not in (ADMINISTRATOR, NOBODY):
        return filled(entry.tell, named)
    return filled("On node {host}: " + entry.cause + ".", named)
