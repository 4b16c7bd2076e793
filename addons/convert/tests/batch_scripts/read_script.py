"""Batch scripts in tests: what is said of their text."""

from __future__ import annotations

from runner_convert.batch_scripts import rules, script, script_report
from runner_convert.batch_scripts.script_report import ScriptReport
from runners.core.site import Site

NOWHERE = Site()


def read(text: str, site: Site = NOWHERE) -> ScriptReport:
    return script_report.make(script.load(text, "job.sh", site))


def line(text: str) -> str:
    """Return the one launch line of a script."""
    drafts = read(text).drafts
    assert len(drafts) == 1
    assert drafts[0].possible
    return drafts[0].text.removeprefix("runner launch ")


def lines(text: str) -> list[str]:
    return [draft.text.removeprefix("runner launch ") for draft in read(text).drafts]


def found(text: str, site: Site = NOWHERE) -> list[tuple[int, str]]:
    """Return line and id of each finding."""
    findings = rules.findings(script.load(text, "job.sh", site))
    return [(finding.line, finding.id) for finding in findings]


def codes(text: str, site: Site = NOWHERE) -> set[str]:
    return {code for _, code in found(text, site)}


def said(text: str, key: str) -> list[str]:
    """Return the notes under a heading, each with its line."""
    return [f"{note.line}: {note.what}" for note in read(text).notes[key]]
