"""What the doctor says: ok, warning or failure, with evidence and the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

from ..core.remedy import Remedy, advice

OK, WARNING, FAILURE = "ok", "warning", "failure"
ORDER = (OK, WARNING, FAILURE)
Fix = Union[Remedy, str, "tuple[Remedy, ...]"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    `subject` groups them; `says` is the finding in one line, `evidence` what it rests on (any
    number of lines), and `fix` how to fix it, the best first; when all is well what to do next.
    """

    subject: str
    name: str
    state: str
    says: str
    evidence: str = ""
    fix: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class About:
    """Makes the findings about one subject; a fix that is given as text is advice."""

    subject: str

    def ok(
        self, name: str, says: str, evidence: str = "", next_step: tuple[Remedy, ...] = ()
    ) -> Finding:
        """Return that all is well, perhaps with what to do next."""
        return Finding(self.subject, name, OK, says, evidence, next_step)

    def warning(self, name: str, says: str, evidence: str = "", fix: Fix = ()) -> Finding:
        return self.finding(name, WARNING, says, evidence, fix)

    def failure(self, name: str, says: str, evidence: str = "", fix: Fix = ()) -> Finding:
        return self.finding(name, FAILURE, says, evidence, fix)

    def finding(
        self, name: str, state: str, says: str, evidence: str = "", fix: Fix = ()
    ) -> Finding:
        """Return a finding in any state; a fix is for what is not ok."""
        fix = advice(fix) if isinstance(fix, str) else fix
        fixes = (fix,) if isinstance(fix, Remedy) else fix
        return Finding(self.subject, name, state, says, evidence, () if state == OK else fixes)

    def either(
        self,
        well: bool,
        name: str,
        good: str,
        bad: str,
        evidence: str,
        fix: Fix,
        state: str = WARNING,
    ) -> Finding:
        """Return what is good where it is well, else what is bad, on the same evidence."""
        return self.finding(name, OK if well else state, good if well else bad, evidence, fix)


def grouped(findings: Iterable[Finding]) -> list[tuple[str, list[Finding]]]:
    """Return the findings by subject, in the order of first mention, each group's worst last."""
    all_findings = list(findings)
    worst_last = sorted(all_findings, key=lambda finding: ORDER.index(finding.state))
    names = dict.fromkeys(finding.subject for finding in all_findings)
    return [
        (name, [finding for finding in worst_last if finding.subject == name]) for name in names
    ]


def failed(findings: Iterable[Finding]) -> bool:
    """Whether something failed; warnings do not count."""
    return any(finding.state == FAILURE for finding in findings)


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    states = [finding.state for finding in findings]
    return {state: states.count(state) for state in ORDER}
