"""From points of a study to drafts of runs: planned once for each size and variant."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core.command_line import CommandLine
from ..core.errors import Refused
from ..core.plan import Plan
from ..core.progress import Listener
from ..launching import gather
from ..script import render
from ..settings import trainers
from ..submit.launch import Draft
from . import study
from .study import StudyPaths, StudyRecord
from .study_request import Point


class Drafts:
    """The drafts of a study's runs. The machine is asked once for each variant."""

    def __init__(
        self, paths: StudyPaths, asked: StudyRecord, listener: Listener, dry_run: bool = False
    ) -> None:
        self.paths, self.asked, self.listener, self.dry_run = paths, asked, listener, dry_run
        self.plans: dict[tuple[str, str, bool], Plan] = {}

    def of(self, points: Sequence[Point]) -> list[Draft]:
        """Return a draft for each point, in a folder for its next attempt.

        Raises Refused when one of them cannot work.
        """
        together = self.asked.question.together
        folders = study.next_attempts(self.paths, points)
        typed = CommandLine(words=self.asked.words)
        drafts = []
        for point, paths in zip(points, folders):
            made = self.plan(point, together)
            text = render.render(made, paths, os.getcwd())
            drafts.append(Draft(made, paths, text, typed=typed))
        return drafts

    def check(self) -> list[str]:
        """Plan every run, and raise what one of them is refused for; return all warnings, once."""
        question = self.asked.question
        made = [self.plan(point, question.together) for point in question.points()]
        return list(dict.fromkeys(one.what for plan in made for one in plan.warnings))

    def largest(self) -> Plan:
        """Return the plan of a job that has room for any of the runs."""
        points = self.asked.question.points()
        made = max((self.plan(point) for point in points), key=lambda m: m.spec.resources.tasks)
        nodes = max(point.size.nodes for point in points)
        resources = replace(made.spec.resources, nodes=nodes)
        return replace(made, spec=replace(made.spec, resources=resources))

    def plan(self, point: Point, together: bool = False) -> Plan:
        """Return the plan of a point's runs; raise Refused when it cannot work."""
        key = (point.variant.label, str(point.size), together)
        if key not in self.plans:
            self.plans[key] = self._solve(point, together)
        return self.plans[key]

    def _solve(self, point: Point, together: bool) -> Plan:
        question = self.asked.question
        flags: dict[str, Any] = {**question.settings(point), "runs-dir": str(self.paths.runs)}
        trainer, preset = trainers.find(question.trainer_of(point), question.args)
        here = gather.look_around(flags, preset)
        if together:
            flags["scheduler"] = "allocation"
            nodes = max(size.nodes for size in question.sizes)
            here = replace(here, allocation="of the study", allocated_nodes=nodes, allocated_cpus=0)
        made = gather.plan_for(trainer, preset, flags, here, self.dry_run, self.listener)
        if made.refusals:
            first = made.refusals[0]
            where = f"{point.size} nodes {point.variant.label}".strip()
            raise Refused(f"{where}: {first.what}", first.evidence, first.remedies)
        args = question.args_of(made.spec.resources.tasks)
        return replace(made, spec=replace(made.spec, trainer=replace(trainer, args=args)))
