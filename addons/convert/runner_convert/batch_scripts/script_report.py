"""What `runner convert` says of a batch script, as a value, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from runners.core import diagnosis
from runners.core.command_line import CommandLine
from runners.settings import suggest
from runners.sites import named_site

from ..line_diagnosis import LineDiagnosis
from . import launch_line, outside, script
from .draft import LEFT_OUT, NOT_CARRIED_OVER, TO_FILL_IN, TO_LOOK_AT, LaunchLine
from .rules import findings
from .script import Script

MOST_SAME = 3  # notes of one text on several lines
PAGE = "docs/reference/batch-findings.md"
HEADINGS = {
    LEFT_OUT: "left out, because runner does it:",
    NOT_CARRIED_OVER: "could not be carried over:",
    TO_FILL_IN: "to fill in:",
    TO_LOOK_AT: "to look at:",
}


@dataclass(frozen=True)
class ScriptReport:
    """The launch lines of a script, what is wrong in it, and notes by their ids."""

    drafts: tuple[LaunchLine, ...]
    findings: tuple[LineDiagnosis, ...]
    notes: dict[str, list[LineDiagnosis]]


def check(text: str, name: str) -> list[LineDiagnosis]:
    """Return what is wrong in a batch script. Raises UsageError for one that cannot be read."""
    return findings(_load(text, name))


def convert(text: str, name: str) -> ScriptReport:
    """Return the launch that does the same as a batch script. Raises as `check`."""
    return make(_load(text, name))


def _load(text: str, name: str) -> Script:
    """Read a script, in which commands of this site mean what they do here."""
    return script.load(text, name, named_site.find({}, None))


def make(script: Script) -> ScriptReport:
    drafts = [launch_line.draft(script, step) for step in script.steps]
    possible = [draft for draft in drafts if draft.possible]
    of = {id: drafts if id == NOT_CARRIED_OVER else possible for id in HEADINGS}
    notes = {id: [note for draft in of[id] for note in draft.said(id)] for id in HEADINGS}
    notes[NOT_CARRIED_OVER] += outside.not_carried_over(script)
    notes[TO_LOOK_AT] += outside.to_look_at(script, len(possible))
    unique = {id: _unique(of_id) for id, of_id in notes.items()}
    return ScriptReport(tuple(drafts), tuple(findings(script)), unique)


def _unique(notes: Iterable[LineDiagnosis]) -> list[LineDiagnosis]:
    return sorted(dict.fromkeys(notes), key=lambda note: note.line)


def as_text(report: ScriptReport) -> Iterator[str]:
    launches = dict.fromkeys(tuple(_launch(report, draft)) for draft in report.drafts)
    blocks = [[line for launch in launches for line in launch]]
    for id, heading in HEADINGS.items():
        lines = [f"  {line}" for line in _notes_as_text(report.notes[id])]
        blocks.append([heading, *lines] if lines else [])
    findings = [f"  {line}" for line in findings_as_text(report.findings)]
    blocks.append(["findings:", *findings] if findings else [])
    for number, block in enumerate(filter(None, blocks)):
        yield from ("", *block) if number else block


def _notes_as_text(notes: list[LineDiagnosis]) -> Iterator[str]:
    """Yield each note; one that is the same of many lines, or rounds of a loop, once."""
    of_text: dict[str, list[LineDiagnosis]] = {}
    of_rounds: dict[tuple[int, str, str], list[LineDiagnosis]] = {}
    for note in notes:
        of_text.setdefault(note.what, []).append(note)
        of_rounds.setdefault(_command(note), []).append(note)
    for note in notes:
        same, rounds = of_text[note.what], of_rounds[_command(note)]
        if len(same) <= MOST_SAME and len(rounds) <= MOST_SAME:
            yield str(note)
        elif len(same) > MOST_SAME and note is same[0]:
            yield f"line {note.line} and {len(same) - 1} others: {note.what}"
        elif len(rounds) > MOST_SAME and note is rounds[0]:
            yield f"{note} (and {len(rounds) - 1} more of this line)"


def _command(note: LineDiagnosis) -> tuple[int, str, str]:
    """Return the line of a note, the first word of its command, and what is said of it."""
    text, _, told = note.what.rpartition(": ")
    return note.line, "".join(text.split()[:1]), told


def _launch(report: ScriptReport, draft: LaunchLine) -> Iterator[str]:
    if len(report.drafts) > 1 or not draft.possible:
        yield f"# line {draft.line}"
    yield draft.text if draft.possible else "# no launch does the same; see below"


def findings_as_text(findings: Iterable[LineDiagnosis]) -> Iterator[str]:
    for finding in findings:
        mark = f"{finding.place}{finding.id}: "
        yield from diagnosis.lines(finding, mark=mark, indent="    ", word="right")


def as_json(report: ScriptReport) -> dict[str, Any]:
    """Return the same for programs; a launch that is not complete has places to fill in."""
    launches = [
        {
            "line": draft.line,
            "command": draft.text if draft.possible else None,
            "complete": draft.possible and not draft.said(TO_FILL_IN),
        }
        for draft in report.drafts
    ]
    notes = [_as_data(note) for of_id in report.notes.values() for note in of_id]
    found = [*notes, *map(_with_page, report.findings)]
    return diagnosis.document(found, kind="batch", launches=launches)


def findings_as_json(findings: Iterable[LineDiagnosis]) -> dict[str, Any]:
    return diagnosis.document([_with_page(finding) for finding in findings], kind="batch")


def _with_page(finding: LineDiagnosis) -> dict[str, Any]:
    return {**_as_data(finding), "page": f"{PAGE}#{finding.id}"}


def _as_data(found: LineDiagnosis) -> dict[str, Any]:
    typed = partial(suggest.as_json, typed=CommandLine(name=""))
    return {**diagnosis.as_data(found, typed), "line": found.line or None}
