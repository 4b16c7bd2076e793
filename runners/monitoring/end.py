"""The end of a job: its exit code, why it failed, how to continue, its results.

Our exit codes (docs/concepts/exit-codes.md) start at 80, which the shell, `timeout` and signals
leave free. Those of errors are theirs (core/errors.py); a job's script and shim end with those
of contract/exit_codes.py.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..contract.exit_codes import EXIT_STOPPED
from ..core import diagnosis, job_record, plan_record
from ..core.command_line import CommandLine
from ..core.diagnosis import Certainty
from ..core.errors import NotFound, RunnerError, UsageError
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.progress import Listener
from ..core.remedy import change, command
from ..explain import read_facts
from ..explain.explanation import Explanation
from ..explain.findings import finding
from ..jobs import job_status
from ..settings import suggest
from . import stall_notice, stalls
from .stalls import Stall

STACKS_SHOWN = 10
UNKNOWN_LAUNCH = CommandLine(name="")
EXIT_CODES = {
    JobState.TIMEOUT: 83,
    JobState.PREEMPTED: 84,
    JobState.NODE_FAIL: 85,
    JobState.CANCELLED: 86,
    JobState.OUT_OF_MEMORY: 87,
    JobState.UNKNOWN: 88,
    JobState.STOPPED: EXIT_STOPPED,
}
NO_RESULT = (
    "no result.json in OUTPUT_DIR: write one from rank 0, such as "
    '{"accuracy": 0.97, "samples_per_s": 812}, for result, compare, sweeps and scale; '
    "see docs/start/own-trainer.md"
)


@dataclass(frozen=True)
class JobEnd:
    """How a job ended. `result` is what its trainer wrote, `odd` why that cannot be read.

    `by_user` says that its user cancelled it. Of such a job, and of one that stopped early with its
    work saved, `saved_step` is the newest checkpoint's and `resume` the launch that resumes there;
    why they ended is known. Of others that did not end well `explanation` says it.
    """

    paths: JobPaths
    job: Job
    status: Status
    exit_code: int
    by_user: bool
    saved_step: int | None
    resume: str
    explanation: Explanation | None
    result: dict[str, Any] | None
    odd: str

    @property
    def lacks_result(self) -> bool:
        """Whether it should have written a result and did not."""
        return self.status.state == JobState.COMPLETED and self.result is None and not self.odd


def of_job(paths: JobPaths, job: Job, status: Status, explain_all: bool = False) -> JobEnd:
    """Return how a job ended; with `explain_all` also why it did where its user knows that."""
    code = exit_code(paths, job, status)
    by_user = status.state == JobState.CANCELLED and status.reason in ("", f"by {os.getuid()}")
    known = by_user or status.state == JobState.STOPPED
    return JobEnd(
        paths,
        job,
        status,
        code,
        by_user,
        job_record.saved_step(paths) if known else None,
        resume_command(paths, job) if known else "",
        explain(paths, job, status) if code and (explain_all or not known) else None,
        *job_record.result(paths),
    )


def exit_code(paths: JobPaths, job: Job, status: Status) -> int:
    """Return the exit code for a job that has ended: of a failed one its first rank's."""
    failed = status.state == JobState.FAILED
    return exit_code_of(status, read_facts.exit_code(paths, job) if failed else None)


def exit_code_of(status: Status, first: int | None) -> int:
    """Return the exit code for a job that has ended; `first` is its first rank's to fail, or None.

    That rank's own code comes before the job's: srun reports how it ended the others.
    """
    if status.state == JobState.COMPLETED:
        return 0
    return EXIT_CODES.get(status.state) or first or status.exit_code or RunnerError.exit_code


def explain(
    paths: JobPaths, job: Job, status: Status, listener: Listener | None = None
) -> Explanation:
    """Return why a job ended as it did; raises as `explain.judge.explain`.

    With a listener the nodes of a job that runs are asked whether it has stopped making progress.
    """
    from ..explain import judge  # its signatures cost 30 ms, which a good end need not pay

    explanation = judge.explain(paths, job, status)
    if listener and status.state == JobState.RUNNING and not explanation.failed:
        return _stalled(paths, job, listener) or explanation
    stall = stall_notice.last_known(paths, job) if explanation.failed else None
    return _after(stall, explanation) if stall and status.state.ended else explanation


def _after(stall: Stall, explanation: Explanation) -> Explanation:
    """Return why a job ended that had made no progress before, with where its ranks were."""
    what = f"{explanation.what}; before that {stalls.in_words(stall)}"
    evidence = "\n".join((*explanation.evidence_lines, *stalls.table(stall)))
    return replace(explanation, what=what, evidence=evidence)


def explain_text(path: Path, name: str) -> Explanation:
    """Return what a log alone tells of a failure.

    Raises UsageError for one that is empty, or cannot be read.
    """
    from ..explain import judge  # as above

    try:
        if not path.stat().st_size:
            usage = "runner explain JOB, FILE or -"
            raise UsageError(f"{name} is empty", remedy=usage, id="log-empty")
        return judge.explain_text(path, name)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot read {name}", why, id="log-unreadable") from None


def _stalled(paths: JobPaths, job: Job, listener: Listener) -> Explanation | None:
    stall = stall_notice.asked(paths, job, listener)
    if stall is None:
        return None
    because = "its nodes were asked just now what each rank does"
    if stall.step is None:
        because += "; one long call, such as reading a large file, looks the same"
    files = sorted(paths.stacks.glob("*.txt"))[:STACKS_SHOWN]
    fix = command("cat", *files) if files else command("runner", "logs", "--all", job.id)
    cause, evidence = stalls.in_words(stall), stalls.table(stall)
    return replace(finding(cause, evidence, fix, Certainty.LIKELY, because), id="stall")


def with_commands(explanation: Explanation, job: Job) -> Explanation:
    """Return an explanation whose fixes are the whole commands to type."""
    fixes = tuple(suggest.resolved(explanation.remedies, job.typed))
    return replace(explanation, remedies=fixes)


def result(paths: JobPaths, job: Job) -> dict[str, Any]:
    """Return what the trainer wrote in result.json; raise NotFound when it wrote none."""
    value, odd = job_record.result(paths)
    if value is None:
        status = job_status.status(paths, job)
        ended = status.state == JobState.COMPLETED
        why = odd or (NO_RESULT if ended else f"{paths.result} does not exist")
        if failed := failure(paths, job, status):
            raise NotFound(
                f"job {job.id} has no result: it {failed}",
                why,
                explained_by(job),
                id="result-of-failed-job",
            )
        remedy = f"runner status {job.id}, runner logs {job.id}"
        raise NotFound(f"job {job.id} has no result", why, remedy, id="result-missing")
    return value


def failure(paths: JobPaths, job: Job, status: Status) -> str:
    """Return how a job ended, as `failed (exit code 95)`; "" for one that did not fail."""
    if not status.state.ended or status.state in (JobState.COMPLETED, JobState.STOPPED):
        return ""
    words = "failed" if status.state == JobState.FAILED else f"ended: {status.state.value}"
    return f"{words} (exit code {exit_code(paths, job, status)})"


def explained_by(job: Job) -> str:
    return f"runner explain {job.id}"


def resume_command(paths: JobPaths, job: Job) -> str:
    """Return the launch that resumes from the checkpoint; empty for one that has none of ours."""
    if job_record.saved_step(paths) is None:
        return ""
    # A container shows the current folder by itself.
    seen = Path(job.typed.cwd) in paths.root.parents
    bind = [] if seen else [f"{paths.root}:{paths.root}:ro"]
    return suggest.text(change(arguments={"--resume": paths.root}, bind=bind), job.typed)


def explanation_facts(explanation: Explanation, job: Job | None = None) -> dict[str, Any]:
    """Return an explanation for programs; a remedy has the whole command as its text.

    Without a job, of a log alone, `job` is None and the text says what to change in a launch.
    """
    typed = partial(suggest.as_json, typed=job.typed if job else UNKNOWN_LAUNCH)
    facts = diagnosis.as_data(explanation, typed)
    return {
        **facts,
        "because": explanation.because,
        "job": job.id if job else None,
        "who": explanation.who,
        "rank": explanation.rank,
        "host": explanation.host,
        "traceback": explanation.traceback,
        "steps": explanation.steps,
        "fixed_by": explanation.fixed_by,
        "tell": explanation.tell,
    }


def facts(ended: JobEnd) -> dict[str, Any]:
    """Return for programs how a job ended that was waited for."""
    why = ended.explanation
    return {
        "id": ended.job.id,
        "folder": str(ended.paths.root),
        "state": ended.status.state.name,
        "exit_code": ended.exit_code,
        "explanation": explanation_facts(why, ended.job) if why else None,
        "result": ended.result,
    }


def traces(paths: JobPaths) -> Iterator[str]:
    """Yield where profile and timeline are, and what shows them."""
    plan = plan_record.read(paths)
    if paths.profile.is_dir():
        shows = "TensorBoard's profile plugin; .json: ui.perfetto.dev"
        if plan.profiler:
            shows = f"by {shlex.split(plan.profiler)[0]}"
        yield f"profile: {paths.profile} ({shows})"
    if plan.timeline:
        yield f"timeline: {paths.root / plan.timeline} (chrome://tracing or ui.perfetto.dev)"
