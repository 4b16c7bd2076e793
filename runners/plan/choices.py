"""What a solver writes down while it decides; it lives for one solution."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.model import Decision, Refusal, Variable


@dataclass
class Notes:
    """Choices, reasons against the whole, things to know, and variables of the job."""

    decisions: list[Decision] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)

    def choose(self, what: str, value: str, reason: str, evidence: str = "") -> str:
        """Note a choice; return its value."""
        self.decisions.append(Decision(what, value, reason, evidence))
        return value

    def refuse(self, what: str, evidence: str = "", *remedies: str) -> None:
        """Note why this cannot work, with commands that other settings cannot replace."""
        self.refusals.append(Refusal(what, evidence, remedies))

    def warn(self, text: str) -> None:
        """Note what the user should know although the job can run."""
        self.warnings.append(text)

    def set(self, name: str, value: str, reason: str, where: str = "job") -> None:
        """Note a variable of the job, which gives way to the user's own."""
        self.variables.append(Variable(name, value, reason, where))
