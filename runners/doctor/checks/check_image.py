"""An image: what it contains, and what a launch with it would do here."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.errors import RunnerError
from ...core.plan import Plan
from ...core.remedy import command
from ...images.inspect import UNKNOWN, Inspection
from ..finding import About, Finding

ABOUT = About("image")
SHOWN = (
    "horovod.version",
    "horovod.frameworks",
    "horovod.controllers",
    "torch.version",
    "tensorflow.version",
    "mpi.flavour",
    "mpi.version",
    "pmix.version",
    "cuda.version",
    "nccl.version",
    "glibc.version",
)
FRAMEWORKS = ("torch.version", "tensorflow.version")
ABSENT = (UNKNOWN, "none")


def refused(error: RunnerError) -> Finding:
    return ABOUT.of("plan", error.diagnosis)


def facts(inspection: Inspection) -> list[Finding]:
    known = {name: fact for name, fact in inspection.facts.items() if name in SHOWN}
    lines = "\n".join(f"{name}: {fact.value} ({fact.source})" for name, fact in known.items())
    if inspection.problem:
        says = f"cannot be inspected: {inspection.problem.what}"
        return [ABOUT.warning("facts", says, lines, inspection.problem.remedies)]
    values = {name: fact.value for name, fact in known.items()}
    version = inspection.facts["horovod.version"].value
    if version in ABSENT:
        return [_without_horovod(values, lines)]
    unknown = ", ".join(name for name, value in values.items() if value == UNKNOWN)
    says = f"Horovod {version}" + (f"; unknown: {unknown}" if unknown else "")
    return [ABOUT.ok("facts", says, lines)]


def _without_horovod(values: Mapping[str, object], lines: str) -> Finding:
    versions = {name.partition(".")[0]: values.get(name, "none") for name in FRAMEWORKS}
    names = ", ".join(f"{name} {value}" for name, value in versions.items() if value not in ABSENT)
    if names:
        return ABOUT.ok("facts", f"{names}; without Horovod", lines)
    says = "neither Horovod, torch nor TensorFlow was found in it"
    return ABOUT.failure("facts", says, lines, command("runner", "build", "cpu"))


def plan(made: Plan) -> list[Finding]:
    """Return what a launch would do here, and why it would not."""
    lines = "\n".join(f"{choice.id}: {choice.text} ({choice.reason})" for choice in made.choices)
    ranks = f"{made.resources.tasks} ranks"
    says = f"{made.launching.launcher}, controller {made.wireup.controller}, {ranks}"
    works = [] if made.refusals else [ABOUT.ok("plan", says, lines)]
    return [*works, *(ABOUT.of("plan", found) for found in (*made.warnings, *made.refusals))]
