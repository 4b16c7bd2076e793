"""plan.json of a run: what was decided for it, for `explain`, `compare` and `scale` to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from .errors import SystemFault
from .files import DAMAGED, read_json, write_json
from .job_record import JobPaths
from .model import Controller, ImageAccess
from .plan import Cpus, Gpus, Interruption, Launching, Plan, Staging, Wireup

VERSION = 2  # of the form of the file
DECISIONS: Mapping[str, Any] = {
    "launching": Launching,
    "wireup": Wireup,
    "gpus": Gpus,
    "cpus": Cpus,
    "staging": Staging,
    "interruption": Interruption,
}
# By the annotations of their fields.
ENUMS: Mapping[str, type[Enum]] = {"Controller": Controller, "ImageAccess": ImageAccess}
KINDS: Mapping[str, type] = {"str": str, "int": int, "bool": bool}
Decision = TypeVar("Decision")


@dataclass(frozen=True)
class PlanRecord:
    """What was decided for a run. `choices` are the values that people read, by identifier.

    `launching` and `wireup` are None where nobody knows them: a run without the file.
    """

    choices: Mapping[str, Any] = field(default_factory=dict)
    launching: Launching | None = None
    wireup: Wireup | None = None
    gpus: Gpus = field(default_factory=Gpus)
    cpus: Cpus = field(default_factory=Cpus)
    staging: Staging = field(default_factory=Staging)
    interruption: Interruption = field(default_factory=Interruption)

    @property
    def controller(self) -> Controller | None:
        return self.wireup.controller if self.wireup else None

    @property
    def mpi(self) -> str | None:
        """Return srun's --mpi=, None without srun, and where nobody knows it."""
        return self.wireup.mpi if self.wireup else None


def as_data(made: Plan) -> dict[str, Any]:
    """Return the plan's decisions and choices, as they are written down."""
    decisions = {name: asdict(getattr(made, name)) for name in DECISIONS}
    choices = [asdict(choice) for choice in made.choices]
    return {"version": VERSION, **decisions, "choices": choices}


def write(paths: JobPaths, made: Plan) -> None:
    write_json(paths.plan, as_data(made), private=True)


def read(paths: JobPaths) -> PlanRecord:
    """Return what was decided for a run, and nothing where there is no such file.

    Raises SystemFault for a file that cannot be read, or has another form.
    """
    content = read_json(paths.plan)
    if content is None:
        return PlanRecord()
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        raise SystemFault(
            f"{paths.plan} was written by another version of runner",
            f"its form is {version}, and this one reads {VERSION}",
        )
    try:
        choices = {str(choice["id"]): choice["value"] for choice in content["choices"]}
        kinds = {name: kind for name, kind in DECISIONS.items() if name in content}
        decisions = {name: _decision(kind, content[name]) for name, kind in kinds.items()}
        return PlanRecord(choices, **decisions)
    except DAMAGED as error:
        raise SystemFault(f"cannot read {paths.plan}", str(error)) from None


def _decision(kind: Callable[..., Decision], value: Mapping[str, Any]) -> Decision:
    """Return a decision as a value; raise ValueError or TypeError for what is none."""
    annotations = {each.name: str(each.type) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: _typed(annotations[name], item) for name, item in value.items()})


def _typed(annotation: str, value: Any) -> Any:
    kind = annotation.removesuffix(" | None")
    if value is None and kind != annotation:
        return None
    if kind in ENUMS:
        return ENUMS[kind](value)
    if not isinstance(value, KINDS[kind]):
        raise ValueError(f"{value!r} is no {kind}")
    return value
