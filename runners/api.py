"""The Python API, for notebooks and pipelines: launch, plan and look after jobs.

>>> import runners
>>> job = runners.launch("train.py", image="horovod_gpu.sif", nodes=4, args=["--epochs", "5"])
>>> job.result()

It prints nothing and ends no process: errors are exceptions with `what`, `evidence`, `remedies`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .core import job_record
from .core.command_line import FLAG, CommandLine, Given
from .core.diagnosis import Diagnosis, Severity
from .core.errors import RunnerError, UsageError, nearest
from .core.job_record import JobPaths, JobState
from .core.plan import Plan
from .core.progress import Listener
from .core.remedy import command
from .explain.explanation import Explanation
from .jobs import find_run, job_status
from .launching import gather, submit
from .launching.submit import LaunchRequest
from .monitoring import end, follow, job_log, run_group, run_status
from .monitoring.job_log import JobLog
from .monitoring.run_status import RunStatus as RunStatus
from .settings import config, trainers
from .settings.table import SETTINGS


class JobFailed(RunnerError):
    """A job whose result was asked for has not completed; `explanation` says why."""

    id = "job-failed"

    def __init__(self, what: str, explanation: Explanation) -> None:
        super().__init__(what, explanation.evidence, explanation.remedies)
        self.explanation = explanation


def launch(
    trainer: str | Path = "", *, args: Sequence[object] = (), force: bool = False, **settings: Any
) -> Job:
    """Submit a job, as `runner launch` does; return it.

    `trainer` is a packaged recipe, a Python file or a program, and `args` are its arguments.
    Without one it is a packaged test of a minute, `torch_mnist`, or `tf_mnist` where the image has
    no PyTorch. The settings are the options of `runner launch`, with underscores: `nodes=2`,
    `env={"NAME": "value"}`, `bind=["/data"]`. Files, variables and the site's profile give the
    others. Raises UsageError for settings that cannot be meant, and Refused, with remedies, for a
    job that cannot work, unless `force` is given; then nothing was submitted.
    """
    name, words, flags = _request(trainer, args, settings)
    switches = (("force", True),) if force else ()
    typed = CommandLine("launch", tuple(_given(flags)), switches, name, tuple(words), os.getcwd())
    request = LaunchRequest(name, words, flags, typed, force=force)
    ((draft, _),) = submit.submitted(submit.accepted(request, Listener()), typed)
    warned = Severity.WARNING
    forced = [replace(refusal, severity=warned) for refusal in draft.plan.refusals]
    return Job(draft.paths, (*draft.plan.warnings, *forced))


def plan(trainer: str | Path = "", *, args: Sequence[object] = (), **settings: Any) -> Plan:
    """Return what `launch` would choose, as `runner plan` shows it; nothing is submitted.

    A plan that cannot work has `refusals`. Raises UsageError as `launch`.
    """
    return gather.plan(*_request(trainer, args, settings), True, Listener())


def _request(
    trainer: str | Path, args: Sequence[object], settings: dict[str, Any]
) -> tuple[str, list[str], dict[str, Any]]:
    """Return the trainer's name, its arguments and the settings, checked. Raises UsageError."""
    if isinstance(args, (str, bytes)):
        raise UsageError(
            f"args must be a list, such as ['--lr', 0.1], not the string {args!r}",
            id="args-not-a-list",
        )
    name, words = str(trainer or ""), [str(argument) for argument in args]
    if words and not name:
        raise UsageError(
            f"args {words!r} without a trainer",
            remedy='launch("torch_mnist", args=[...])',
            id="args-without-trainer",
        )
    if trainers.source(name) and not {"-h", "--help"}.isdisjoint(words):
        shows = command("runner", "recipes", "show", name)
        raise UsageError(f"{name} --help trains nothing", remedy=shows, id="help-as-argument")
    return name, words, _flags(settings)


def _given(flags: Mapping[str, Any]) -> Iterator[Given]:
    for name, value in flags.items():
        yield from (Given(name, item) for item in (value if isinstance(value, list) else [value]))


def _flags(settings: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments as settings by name, checked."""
    names = {name.replace("-", "_"): name for name in SETTINGS}
    for word in settings:
        if word not in names:
            raise UsageError(
                f"there is no setting {word!r}", nearest(word, names), id="setting-unknown"
            )
    given = {names[word]: value for word, value in settings.items() if value is not None}
    table = {name: _as_in_a_file(SETTINGS[name].kind, value) for name, value in given.items()}
    return config.check_table("settings", table, FLAG).values


def _as_in_a_file(kind: str, value: Any) -> Any:
    """Return a value as TOML has it: `gpus=4` and `time=30` are numbers here and texts there."""
    if kind == "list" and isinstance(value, (str, Path)):
        return [str(value)]
    if kind == "list" and isinstance(value, (tuple, list)):
        return [str(item) for item in value]
    if kind == "list" and isinstance(value, dict):
        return {name: _as_in_a_file("text", item) for name, item in value.items()}
    text = kind == "text" and isinstance(value, (int, float, Path)) and not isinstance(value, bool)
    return str(value) if text else value


def job(name: str | None = None, *, runs_dir: str | Path | None = None) -> Job:
    """Return a job that was launched before, by its number, its run's name or folder.

    Without a name it is the last one. Raises NotFound, and UsageError for a name of several runs.
    """
    flags = _flags({"runs_dir": runs_dir})
    folder = config.load(flags, os.environ, strict=False).runs_dir
    return Job(find_run.find(name, folder)[0])


class Job:
    """A submitted job, and what is known of it: each call queries again.

    `folder` is the run's own folder, `id` the number that its scheduler gave it. `warnings` are
    those of the launch that returned it, each with `what` and `remedies`, and with `force` what it
    would have refused; a run's folder has none.
    """

    def __init__(self, paths: JobPaths, warnings: Sequence[Diagnosis] = ()) -> None:
        self._paths, self.warnings = paths, tuple(warnings)
        record = job_record.load(paths)
        self.folder, self.id, self.name = paths.root, record.id, record.name

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {str(self.folder)!r})"

    @property
    def _run(self) -> find_run.Run:
        """The record on disk tells how a job ended; its scheduler forgets that."""
        return self._paths, job_record.load(self._paths)

    def status(self) -> RunStatus:
        """Return how the job stands: state, reason, times, exit code, the newest step and loss.

        Raises SystemFault when its scheduler does not answer.
        """
        run = self._run
        return run_status.of_run(*run, job_status.status(*run))

    @property
    def state(self) -> JobState:
        """How the job stands now, as its scheduler says; raises as `status`."""
        return job_status.status(*self._run).state

    def wait(self, timeout: float | None = None) -> JobState:
        """Wait for the end, or `timeout` seconds at most; return the state."""
        return follow.wait(*self._run, timeout).state

    def logs(self, rank: int | None = None) -> str:
        """Return the log so far, each line as `rank@host | ...`: of all ranks, or of one.

        Lines of Slurm and of the runner itself belong to no rank and are always there.
        """
        log = JobLog(Path(self._run[1].log))
        pieces = job_log.so_far(log, None if rank is None else {rank})
        lines = [line + b"\n" for piece in pieces for line in piece]
        return b"".join(lines).decode("utf-8", "replace")

    def result(self) -> dict[str, Any]:
        """Wait for the end; return what the trainer wrote in result.json.

        Raises JobFailed with the explanation when the job did not complete, NotFound when it
        completed without a result.
        """
        if self.wait() is not JobState.COMPLETED:
            why = self.explain()
            raise JobFailed(f"job {self.id} has no result: {why.what}", why)
        return end.result(*self._run)

    def cancel(self) -> bool:
        """End the job; return whether it was cancelled, False for one that had ended already.

        Raises SystemFault when its scheduler does not cancel it, UsageError where it runs and
        another user could have written its record.
        """
        return run_group.cancel([self._run]) > 0

    def explain(self) -> Explanation:
        """Return why the job failed: cause, evidence, fix, certainty.

        Of a job that runs, whether it has stopped making progress: where it is quiet its nodes are
        asked twice, which takes up to a minute. `fix` is the whole command to type. `failed` is
        false where there is nothing to explain.
        """
        paths, record = self._run
        status = job_status.status(paths, record)
        return end.with_commands(end.explain(paths, record, status, Listener()), record)
