"""The input of the solver, and the log of its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NewType, TypeVar, Union

from ..core.diagnosis import Diagnosis, refusal, warning
from ..core.model import ImageInfo, JobSpec, Resources
from ..core.plan import Choice, ChoiceId, Gpus, Launching, Modules, Wireup
from ..core.remedy import Remedy
from ..core.site import Site
from ..settings import config, request, suggest

Value = TypeVar("Value", bound=Union[str, int, float])
# A setting whose origin a step reads; mypy refuses a misspelt name, not a choice without a setting.
SettingName = Union[ChoiceId, Literal["env", "ntasks"]]
# What is asked of the scheduler, as far as it is decided. A step that reads what was decided takes
# one of these, and mypy refuses to call it earlier.
RankResources = NewType("RankResources", Resources)  # nodes and ranks, GPUs in the site's form
JobResources = NewType("JobResources", RankResources)  # the CPUs of each rank too


@dataclass(frozen=True)
class Case:
    """The request, with its image, and the site.

    `reasons` has, by setting, why the request has its value, where it was not typed; `unasked` are
    the settings that only a default or the trainer's preset brought. `filesystems` are the kinds,
    such as nfs4, of those on which its files and folders lie. `one_of_many` is a run of an array or
    a sweep. With the `settings` of which the request was made it can be made again with others.
    """

    spec: JobSpec
    site: Site
    reasons: Mapping[str, str] = field(default_factory=dict)
    unasked: frozenset[str] = frozenset()
    filesystems: Mapping[Path, str] = field(default_factory=dict)
    one_of_many: bool = False
    settings: config.Config | None = None

    @property
    def image(self) -> ImageInfo:
        return self.spec.image

    def why(self, setting: SettingName) -> str:
        return self.reasons.get(setting, "as requested")

    def is_unasked(self, setting: SettingName) -> bool:
        return setting in self.unasked

    def changed(self, remedy: Remedy) -> Case:
        """Return the case of the same command with other settings; raise UsageError, Refused.

        Image, data and trainer stay as they were found.
        """
        if self.settings is None:
            return self
        settings, before = suggest.changed(self.settings, remedy), self.spec
        resources = request.resources(settings, before.trainer.has_ranks)
        dependency = resources.dependency and before.resources.dependency  # numbers of jobs
        resources = replace(resources, dependency=dependency)
        spec = request.job_spec(settings, resources, before.image, before.trainer, before.data)
        spec = replace(spec, runtime=spec.runtime or before.runtime)  # none, of no image's name
        reasons = {**self.reasons, **settings.reasons()}
        return replace(
            self, spec=spec, reasons=reasons, unasked=settings.unasked, settings=settings
        )

    def asking(self, **changes: Any) -> Case:
        return replace(self, spec=replace(self.spec, **changes))


@dataclass(frozen=True)
class Start:
    """How the ranks start, and with what: the rest of a plan follows from it."""

    resources: JobResources
    launching: Launching
    wireup: Wireup
    modules: Modules
    gpus: Gpus


@dataclass
class DecisionLog:
    """What people read of a plan. No step reads it."""

    choices: list[Choice] = field(default_factory=list)
    refusals: list[Diagnosis] = field(default_factory=list)
    warnings: list[Diagnosis] = field(default_factory=list)

    def choose(self, id: ChoiceId, value: Value, reason: str, evidence: str = "") -> Value:
        """Record a choice; return its value."""
        self.choices.append(Choice(id, value, reason, evidence))
        return value

    def refuse(self, id: str, what: str, evidence: str = "", *remedies: Remedy) -> None:
        """Record why this cannot work, and what would help."""
        self.refusals.append(refusal(id, what, evidence, *remedies))

    def warn(self, id: str, what: str, *remedies: Remedy) -> None:
        """Record what the user should know although the job can run."""
        self.warnings.append(warning(id, what, *remedies))
