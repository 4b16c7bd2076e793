"""The drafts of a study's runs: each planned, with its folder, before it is submitted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core import locks
from ..core.command_line import CommandLine
from ..core.errors import Refused
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.trainer import Trainer
from ..jobs.metrics_tail import RATE
from ..launching import gather
from ..launching.run_folder import Draft
from ..script import render
from . import study, study_request
from .study import StudyPaths, StudyRecord
from .study_request import Point

IMPORTED = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study that is to come, the trainer as it was named."""

    point: Point
    trainer: str
    plan: Plan

    @property
    def facts(self) -> dict[str, Any]:
        """The run by its name: its size, what the plan chose, and what is trained."""
        plan = self.plan
        return {
            "name": self.point.key,
            "nodes": plan.resources.nodes,
            "ranks": plan.resources.tasks,
            "controller": plan.wireup.controller,
            "runtime": plan.launching.runtime,
            "trainer": self.trainer,
            "arguments": " ".join(plan.spec.trainer.args),
        }


class Drafts:
    """The drafts of a study's runs. The machine is asked once for each size and variant."""

    def __init__(
        self, paths: StudyPaths, record: StudyRecord, listener: Listener, dry_run: bool = False
    ) -> None:
        self.paths, self.record, self.listener, self.dry_run = paths, record, listener, dry_run
        self.plans: dict[tuple[str, str], Plan] = {}

    def of(self, points: Sequence[Point]) -> list[Draft]:
        """Return a draft for each point, in a folder for its next attempt.

        Raises Refused when one of them cannot work.
        """
        typed = CommandLine(words=self.record.words)
        drafts = []
        for point, paths in zip(points, study.next_attempts(self.paths, points)):
            made = self.plan(point)
            drafts.append(Draft(made, paths, render.render(made, paths, os.getcwd()), typed=typed))
        return drafts

    def check(self) -> list[str]:
        """Plan every run; return all warnings, once.

        Raises what one of them is refused for, and UsageError where no epoch is left to measure.
        """
        question = self.record.question
        study_request.check_epochs(question.args, question.drop)
        plans = [run.plan for run in self.planned()]
        return [
            *study_request.may_be_short(question.args, question.drop),
            *dict.fromkeys(text for plan in plans for text in rate_warnings(plan.spec.trainer)),
            *dict.fromkeys(warning.what for plan in plans for warning in plan.warnings),
        ]

    def planned(self) -> list[PlannedRun]:
        """Return all runs, each with its plan; raise Refused when one of them cannot work."""
        question = self.record.question
        points = question.points()
        return [PlannedRun(point, question.trainer_of(point), self.plan(point)) for point in points]

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Write the study down, grown to what is asked now, and keep it from others meanwhile."""
        busy = f"another runner scale is at work on {self.paths.root}"
        with locks.try_exclusive(self.paths.lock, busy):
            self.record = study.begin(self.paths, self.record)
            yield

    def plan(self, point: Point) -> Plan:
        """Return the plan of a point's runs; raise Refused when it cannot work."""
        key = (point.variant.label, str(point.size))
        if key not in self.plans:
            self.plans[key] = self._solve(point)
        return self.plans[key]

    def _solve(self, point: Point) -> Plan:
        question = self.record.question
        flags: dict[str, Any] = {**question.settings(point), "runs-dir": str(self.paths.runs)}
        trainer = question.trainer_of(point)
        made = gather.plan(trainer, question.args_of(point), flags, self.dry_run, self.listener)
        if made.refusals:
            first = made.refusals[0]
            where = f"{point.size} nodes {point.variant.label}".strip()
            raise Refused(f"{where}: {first.what}", first.evidence, first.remedies, id=first.id)
        args = question.args_of(point, made.resources.tasks)
        with_args = replace(made.spec.trainer, args=args)
        return replace(made, spec=replace(made.spec, trainer=with_args))


def rate_warnings(trainer: Trainer) -> list[str]:
    """Return a warning where neither the script nor what it imports beside it names a rate."""
    file = trainer.file
    if file is None or trainer.uses_recipes or file.suffix != ".py":
        return []
    if any(RATE in text for text in _texts(file)):
        return []
    return [
        f"{file.name} seems to write no rate, and a run without one is not measured: rank 0 has to "
        "write result.json into $OUTPUT_DIR, with a number such as samples_per_s "
        "(docs/start/own-trainer.md)"
    ]


def _texts(file: Path) -> Iterator[str]:
    """Yield the text of a script, and of the modules and packages in its folder that it imports."""
    text = file.read_text(encoding="utf-8", errors="replace")
    yield text
    for name in dict.fromkeys(IMPORTED.findall(text)):
        package = file.with_name(name)
        modules = package.rglob("*.py") if (package / "__init__.py").is_file() else ()
        for module in filter(Path.is_file, (file.with_name(f"{name}.py"), *modules)):
            yield module.read_text(encoding="utf-8", errors="replace")
