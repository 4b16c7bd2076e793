"""Cases of `runner explain`: text in, id and remedies out, as data beside the signatures.

`runners/explain/signatures/cases/NAME.toml` has those of the signatures in NAME.toml, and of those
that are code in `code.toml`. They are not installed with the kit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from runners.contract.failure_kinds import FailureKind
from runners.core.command_line import Given
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.explain import judge
from runners.explain.explanation import Explanation
from runners.explain.message_signatures import FOLDER as SIGNATURES
from runners.injob import problems
from runners.injob.problems import Problem
from runners.settings.config_files import read_toml

from ..failures import leave
from .runs import TYPED, made, planned, saved

FOLDER = SIGNATURES / "cases"
RUN = "RUN"  # the run's folder, in what is expected


@dataclass(frozen=True)
class Rank:
    """A record of a rank that failed: of the one way that is given.

    `error` are its own last words, `guessed` if they only look like it; `lines` are its last lines
    as the shim saw them, or with `logged` those of it in the log; an `exception` ended it, with
    `lines` for traceback; else it has `kind`, `text` and `fields`. `sent` are the numbers of the
    signals that it had been sent. `size` is the number of ranks.
    """

    rank: int = 0
    host: str = ""
    time: float = 1.0
    code: int = 1
    size: int | None = None
    error: str | None = None
    guessed: bool = False
    lines: tuple[str, ...] = ()
    logged: bool = False
    exception: str = ""
    sent: tuple[int, ...] = ()
    kind: str = ""
    text: str = "as told"
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"rank {self.rank}@{self.host or f'n{self.rank}'}"

    def problem(self, log: str) -> Problem:
        """Return what the shim makes of its end."""
        if self.kind:
            return Problem(FailureKind(self.kind), self.text, dict(self.fields))
        if self.error is not None:
            return problems.of_exit(self.code, self.error, guessed=self.guessed)
        if self.exception:
            name, _, message = self.exception.partition(": ")
            error = type(name, (Exception,), {})(message)
            return problems.of_exception(self.code, error, self.lines)
        label = f"{self.name.removeprefix('rank ')} | "
        in_log = [line[len(label) :] for line in log.splitlines() if line.startswith(label)]
        return problems.of_process(self.code, in_log if self.logged else self.lines, self.sent)


@dataclass(frozen=True)
class Case:
    """What a run left, and what is to be told of it; `why` says what the case shows.

    `who` is the rank that is told of, by default that of the only record. `evidence` are lines that
    are among those of the answer. `plan` are values that differ from those of the plan in
    `runs.planned`, as in plan.json; None without a plan. `launch` are options as typed, `saved` is
    the step of a checkpoint; with `starts` the script had begun.
    """

    id: str
    why: str = ""
    remedies: tuple[str, ...] = ()
    certainty: str = "certain"
    who: str | None = None
    evidence: tuple[str, ...] = ()
    log: str | None = ""
    records: tuple[Rank, ...] = ()
    state: str = JobState.FAILED.value
    reason: str = "NonZeroExitCode"
    exit_code: int | None = 1
    scheduler: str = SchedulerName.SLURM.value
    plan: Mapping[str, Any] | None = None
    launch: Mapping[str, Any] = field(default_factory=dict)
    saved: int | None = None
    starts: bool = False
    about: str = ""

    @property
    def name(self) -> str:
        return ": ".join(filter(None, (self.about, self.id, self.why)))

    def left(self, folder: Path) -> tuple[JobPaths, Job, Status]:
        """Leave the run, and return it."""
        paths, job = made(folder, self.log or "")
        if self.log is None:
            paths.log.unlink()
        for record in self.records:
            more: dict[str, Any] = {"host": record.host} if record.host else {}
            more.update({"size": record.size} if record.size else {})
            problem = record.problem(self.log or "")
            leave(paths, record.rank, record.time, problem, record.code, **more)
        if self.plan is not None:
            planned(paths)
            plan = json.loads(paths.plan.read_text())
            paths.plan.write_text(json.dumps(_merged(plan, self.plan)))
        if self.saved is not None:
            saved(paths, self.saved)
        if self.starts:
            paths.starts.write_text('{"began": 1.0}\n')
        given = [
            Given(name, value)
            for name, values in self.launch.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        typed = replace(TYPED, settings=(*TYPED.settings, *given))
        job = replace(job, scheduler=SchedulerName(self.scheduler), typed=typed)
        return paths, job, Status(JobState(self.state), self.reason, self.exit_code)

    def told(self, folder: Path) -> Explanation:
        """Return what is told of the run, with the folder of a user of some site."""
        with patch.dict(os.environ, SCRATCH="/scratch/me", USER="me"):
            return judge.explain(*self.left(folder))


def _merged(plan: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan with other values in it, also in its tables."""
    tables = {
        name: {**plan[name], **value} for name, value in values.items() if isinstance(value, dict)
    }
    return {**plan, **values, **tables}


def remedies(explanation: Explanation) -> tuple[str, ...]:
    """Return all ways to mend it, the best first."""
    return tuple(map(str, explanation.remedies))


def cases() -> Iterator[Case]:
    for file in sorted(FOLDER.glob("*.toml")):
        for row in read_toml(file)["case"]:
            alone = [{"error": row.pop("error")}] if "error" in row else []
            records = tuple(Rank(**_tuples(record)) for record in row.pop("records", alone))
            no_log = row.pop("no_log", False)
            case = Case(**_tuples(row), records=records, about=file.stem)
            yield replace(case, log=None) if no_log else case


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
