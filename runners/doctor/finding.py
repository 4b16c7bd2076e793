"""What the doctor says: ok, warning or failure, with evidence and the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Union

from ..core import diagnosis
from ..core.command_line import CommandLine
from ..core.diagnosis import Diagnosis, Severity
from ..core.remedy import Remedy, advice
from ..settings import suggest

OK, WARNING, FAILURE = Severity.OK, Severity.WARNING, Severity.FAILURE
ORDER = (OK, WARNING, FAILURE)
Fix = Union[Remedy, str, "tuple[Remedy, ...]"]


@dataclass(frozen=True)
class Finding(Diagnosis):
    """One thing that was looked at: `subject` groups them, and `name` is the thing.

    The remedies are how to fix it; when all is well what to do next.
    """

    subject: str = ""
    name: str = ""


@dataclass(frozen=True)
class About:
    """Makes the findings about one subject; a fix that is given as text is advice.

    The id is made of subject and name, where it is not given.
    """

    subject: str

    def ok(
        self, name: str, says: str, evidence: str = "", next_step: tuple[Remedy, ...] = ()
    ) -> Finding:
        """Return that all is well, perhaps with what to do next."""
        return self.of(name, Diagnosis("", OK, says, evidence, next_step))

    def warning(
        self, name: str, says: str, evidence: str = "", fix: Fix = (), id: str = ""
    ) -> Finding:
        return self.finding(name, WARNING, says, evidence, fix, id)

    def failure(
        self, name: str, says: str, evidence: str = "", fix: Fix = (), id: str = ""
    ) -> Finding:
        return self.finding(name, FAILURE, says, evidence, fix, id)

    def finding(
        self,
        name: str,
        severity: Severity,
        says: str,
        evidence: str = "",
        fix: Fix = (),
        id: str = "",
    ) -> Finding:
        """Return a finding of any severity; a fix is for what is not ok."""
        fix = advice(fix) if isinstance(fix, str) else fix
        fixes = (fix,) if isinstance(fix, Remedy) else fix
        remedies = () if severity == OK else fixes
        return self.of(name, Diagnosis(id, severity, says, evidence, remedies))

    def of(self, name: str, found: Diagnosis) -> Finding:
        """Return a diagnosis, such as one of the solver, as a finding."""
        id = found.id or "-".join(f"{self.subject} {name}".lower().split())
        return Finding(**{**vars(found), "id": id}, subject=self.subject, name=name)

    def either(
        self,
        well: bool,
        name: str,
        good: str,
        bad: str,
        evidence: str,
        fix: Fix,
        severity: Severity = WARNING,
    ) -> Finding:
        """Return what is good where it is well, else what is bad, on the same evidence."""
        return self.finding(name, OK if well else severity, good if well else bad, evidence, fix)


def grouped(findings: Iterable[Finding]) -> list[tuple[str, list[Finding]]]:
    """Return the findings by subject, in the order of first mention, each group's worst last."""
    all_findings = list(findings)
    worst_last = sorted(all_findings, key=lambda finding: ORDER.index(finding.severity))
    names = dict.fromkeys(finding.subject for finding in all_findings)
    return [
        (name, [finding for finding in worst_last if finding.subject == name]) for name in names
    ]


def failed(findings: Iterable[Finding]) -> bool:
    """Whether something failed; warnings do not count."""
    return any(finding.severity == FAILURE for finding in findings)


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    severities = [finding.severity for finding in findings]
    return {severity: severities.count(severity) for severity in ORDER}


def document(findings: Sequence[Finding], typed: CommandLine) -> dict[str, Any]:
    """Return findings for programs; `typed` is the command whose changes the remedies are."""
    resolved = partial(suggest.as_json, typed=typed)
    diagnoses = [
        {**diagnosis.as_data(finding, resolved), "subject": finding.subject, "name": finding.name}
        for finding in findings
    ]
    return diagnosis.document(diagnoses, failed=failed(findings), counts=counts(findings))
