"""What `runner convert` says of a batch script, as a value, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runners.launching import gather

from . import launch_line, outside, script
from .draft import LaunchLine, Note
from .rules import findings
from .rules.rule import ScriptFinding
from .script import Script

PAGE = "docs/reference/batch-findings.md"
HEADINGS = {
    "left_out": "left out, because runner does it:",
    "lost": "could not be carried over:",
    "open": "to fill in:",
    "notes": "to look at:",
}


@dataclass(frozen=True)
class ScriptReport:
    """The launch lines of a script, its findings, and notes by the keys of HEADINGS."""

    drafts: tuple[LaunchLine, ...]
    findings: tuple[ScriptFinding, ...]
    notes: dict[str, list[Note]]


def check(text: str, name: str) -> list[ScriptFinding]:
    """Return what is wrong in a batch script. Raises UsageError for one that cannot be read."""
    return findings(_load(text, name))


def convert(text: str, name: str) -> ScriptReport:
    """Return the launch that does the same as a batch script. Raises as `check`."""
    return make(_load(text, name))


def _load(text: str, name: str) -> Script:
    """Read a script, in which commands of this site mean what they do here."""
    return script.load(text, name, gather.probe_site({}, None))


def make(script: Script) -> ScriptReport:
    drafts = [launch_line.draft(script, step) for step in script.steps]
    possible = [draft for draft in drafts if draft.possible]
    of = {key: drafts if key == "lost" else possible for key in HEADINGS}
    notes = {key: _unique(n for draft in of[key] for n in getattr(draft, key)) for key in HEADINGS}
    notes["lost"] = _unique([*notes["lost"], *outside.not_carried_over(script)])
    notes["notes"] = _unique([*notes["notes"], *outside.to_look_at(script, len(possible))])
    return ScriptReport(tuple(drafts), tuple(findings(script)), notes)


def _unique(notes: Iterable[Note]) -> list[Note]:
    return sorted(dict.fromkeys(notes))


def as_text(report: ScriptReport) -> Iterator[str]:
    launches = dict.fromkeys(tuple(_launch(report, draft)) for draft in report.drafts)
    blocks = [[line for launch in launches for line in launch]]
    for key, heading in HEADINGS.items():
        lines = [f"  {_place(note.line)}{note.text}" for note in report.notes[key]]
        blocks.append([heading, *lines] if lines else [])
    findings = [f"  {line}" for line in findings_as_text(report.findings)]
    blocks.append(["findings:", *findings] if findings else [])
    for number, block in enumerate(filter(None, blocks)):
        yield from ("", *block) if number else block


def _launch(report: ScriptReport, draft: LaunchLine) -> Iterator[str]:
    if len(report.drafts) > 1 or not draft.possible:
        yield f"# line {draft.line}"
    yield draft.text if draft.possible else "# no launch does the same; see below"


def findings_as_text(findings: Iterable[ScriptFinding]) -> Iterator[str]:
    for finding in findings:
        yield f"{_place(finding.line)}{finding.code}: {finding.what}"
        yield f"    right: {finding.right}"


def _place(line: int) -> str:
    return f"line {line}: " if line else ""


def as_json(report: ScriptReport) -> dict[str, Any]:
    """Return the same for programs; a launch that is not complete has places to fill in."""
    return {
        "version": 1,
        "kind": "batch",
        "launches": [
            {
                "line": draft.line,
                "command": draft.text if draft.possible else None,
                "complete": draft.possible and not draft.open,
            }
            for draft in report.drafts
        ],
        "left_out": _rows(report.notes["left_out"]),
        "not_carried_over": _rows(report.notes["lost"]),
        "to_fill_in": _rows(report.notes["open"]),
        "to_look_at": _rows(report.notes["notes"]),
        "findings": findings_as_json(report.findings),
    }


def _rows(notes: Iterable[Note]) -> list[dict[str, Any]]:
    return [{"line": note.line or None, "what": note.text} for note in notes]


def findings_as_json(findings: Iterable[ScriptFinding]) -> list[dict[str, Any]]:
    return [{**finding._asdict(), "page": f"{PAGE}#{finding.code}"} for finding in findings]
