"""How runs stand, as facts for programs and as rows for eyes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...core import files, job_record
from ...core.errors import SystemFault
from ...core.job_record import Job, JobPaths, JobState, Status
from ...core.remedy import change
from ...explain import read_facts
from ...explain.facts import FirstFailure
from ...jobs import effective_time, job_status, metrics_tail, stalls, wording
from ...jobs.effective_time import TimeSpent
from ...jobs.find import Run
from ...jobs.resource_use import RunUse
from ...jobs.wording import reason_in_words
from ...launching import end, stall_notice, suggest
from .. import exit_codes, printer
from . import job_end

WELL = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETED, JobState.STOPPED)
HEADERS = ["id", "run", "state", "nodes", "elapsed", "left", "step", "loss", "rate", "exit", "why"]
NUMBERS = ("step", "steps", "epoch", "loss", "rate", "unit")  # of a reading
SPARE = ("nodes", "left", "rate")  # where the terminal is narrow


def statuses(runs: list[Run]) -> list[Status]:
    """Return how runs stand; when a scheduler does not answer, what their folders say."""
    try:
        return job_status.statuses(runs)
    except SystemFault as error:
        printer.tell(f"warning: {error}")
        return job_status.without_asking(runs, error.what)


def of_one(paths: JobPaths, job: Job, used: RunUse | None) -> dict[str, Any]:
    """Return the facts of one run, what it used, and what else there is to say of it."""
    (status,) = statuses([(paths, job)])
    known = facts(paths, job, status)
    if status.state == JobState.STOPPED:
        known.update(saved_step=job_record.saved_step(paths), go_on=end.resume_command(paths, job))
    if status.state == JobState.RUNNING and (stalled := stall_notice.of_job(paths, job)):
        known["stalled"] = stalls.in_words(stalled)
    if weights := files.read_json(paths.weights):
        known["weights"] = f"{weights.get('result')}: {weights.get('text')}"
    if (spent := effective_time.of_run(paths, job)) and spent.starts > 1:
        known["time_spent"] = asdict(spent)
    if used:
        known["use"] = used.value
    # Ranks of a job that Slurm ended, at its time limit say, were ended by it.
    failed = status.state in (JobState.FAILED, JobState.OUT_OF_MEMORY)
    first = read_facts.first(paths, job) if failed else None
    return {**known, "first_to_fail": str(first) if first else None}


def facts(paths: JobPaths, job: Job, status: Status) -> dict[str, Any]:
    """Return the facts of a run: times in seconds, the newest numbers of its training."""
    failed = status.state == JobState.FAILED
    first = read_facts.first_recorded(paths) if failed else None
    known = {
        "id": job.id,
        "name": job.name,
        "state": status.state.name,
        "reason": status.reason,
        "why": reason_in_words(status.reason) or str(first or ""),
        "restarts": status.restart,
        "exit_code": _exit_code(paths, job, status, first),
        "submitted": wording.stamp(job.submitted),
        "start_expected": wording.stamp(status.start),
        "nodes": status.nodes,
        "elapsed": status.elapsed,
        "left": None if status.state.ended else status.left,
        "folder": str(paths.root),
        "varied": dict(job.varied),
    }
    reading = metrics_tail.last(paths)
    return {**known, **{name: getattr(reading, name, None) for name in NUMBERS}}


def _exit_code(paths: JobPaths, job: Job, status: Status, first: FirstFailure | None) -> int | None:
    """Return the exit code that `runner wait` has for a job; None while there is none.

    The log, which may be long, is read only where no rank's record tells of a cause.
    """
    if first and first.record and not first.record.follower:
        return exit_codes.of_job(status, first.record.exit_code)
    known = status.state.ended and status.state != JobState.UNKNOWN
    return job_end.exit_code(paths, job, status) if known else status.exit_code


def table(runs: Sequence[dict[str, Any]]) -> tuple[list[list[str]], list[str]]:
    """Return rows and headers; of a sweep's runs also in which arguments they differ."""
    if not any(facts["varied"] for facts in runs):
        return [row(facts) for facts in runs], HEADERS
    rows = [[*row(facts)[:2], varied(facts["varied"]), *row(facts)[2:]] for facts in runs]
    return rows, [*HEADERS[:2], "arguments", *HEADERS[2:]]


def varied(arguments: Mapping[str, str]) -> str:
    return visible(" ".join(f"{name}={value}" for name, value in arguments.items()))


def visible(text: str) -> str:
    """Return a text in which all that is no visible character is escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def row(facts: dict[str, Any]) -> list[str]:
    """Return a run's facts as texts below HEADERS."""
    start = facts["start_expected"]
    why = facts["why"] + (f", to start at {start[:16]} or before" if start else "")
    return [
        facts["id"],
        facts["folder"].rpartition("/")[2],
        JobState[facts["state"]].value,
        facts["nodes"],
        wording.span(facts["elapsed"]),
        wording.span(facts["left"]),
        step(facts),
        "" if facts["loss"] is None else f"{facts['loss']:.4g}",
        rate(facts),
        "" if facts["exit_code"] is None else str(facts["exit_code"]),
        why,
    ]


def step(facts: dict[str, Any]) -> str:
    """Return how far it is: 100/368, or 100."""
    done, planned = facts["step"], facts["steps"]
    return "" if done is None else str(done) + (f"/{planned}" if planned else "")


def rate(facts: dict[str, Any]) -> str:
    """Return how fast it is: 8012 samples/s."""
    return "" if facts["rate"] is None else f"{facts['rate']:.0f} {facts['unit']}/s"


def in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a run, each fact as it is read by people."""
    row: dict[str, Any] = {
        **facts,
        "state": JobState[facts["state"]].value,
        "elapsed": wording.span(facts["elapsed"]),
        "left": wording.span(facts["left"]),
        "step": step(facts),
        "rate": rate(facts),
        "varied": varied(facts["varied"]),
    }
    for name in ("reason", "steps", "unit"):  # told by another
        del row[name]
    row.pop("use", None)  # a table of its own
    if "time_spent" in facts:
        row["time_spent"] = effective_time.in_words(TimeSpent(**facts["time_spent"]))
    return {name.replace("_", " "): value for name, value in row.items() if value not in ("", None)}


def use_lines(used: RunUse, job: Job) -> Iterator[str]:
    """Yield what was found of a run's use of its nodes, with the command that fixes it."""
    for finding, sentence in zip(used.findings, used.sentences):
        yield f"runner: {visible(sentence)}"
        if finding.options:
            yield f"  try: {suggest.text(change(finding.options), job.typed)}"


def use_table(used: RunUse) -> tuple[list[list[str]], list[str]]:
    rows, headers = used.table
    return [[visible(cell) for cell in row] for row in rows], headers
