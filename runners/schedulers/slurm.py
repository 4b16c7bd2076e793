"""Slurm: for each verb a command and a parser of its output, both pure, then the call."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..core import shell
from ..core.errors import MissingProgram, Refused, RunnerError, SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState, Status
from ..core.plan import Plan
from ..core.remedy import change
from . import slurm_script
from .base import Arrays, Scheduler, limit_seconds
from .slurm_script import NO_ANSWER_TEXT, SlurmSteps, scrubbed

JOB_ID = re.compile(r"\d+(_(\d+|\*))?(\+\d+)?")  # after:123+5 waits five minutes more
WAITS = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    *("SUSPENDED", "RESV_DEL_HOLD", "LAUNCH_FAILED", "RECONFIG_FAIL", "POWER_UP_NODE"),
)
RUNS = ("RUNNING", "COMPLETING", "SIGNALING", "STOPPED", "RESIZING", "STAGE_OUT")
STATES = {
    **dict.fromkeys(WAITS, JobState.PENDING),
    **dict.fromkeys(RUNS, JobState.RUNNING),
    **dict.fromkeys(("BOOT_FAIL", "NODE_FAIL"), JobState.NODE_FAIL),
    **dict.fromkeys(("DEADLINE", "TIMEOUT"), JobState.TIMEOUT),
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "PREEMPTED": JobState.PREEMPTED,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
}
# NOTE: with a suffix after the colon, squeue 22.05 to 26.05 do not cut a field at 20 characters.
STATUS_FIELDS = ("JobArrayID", "State", "Reason", "RestartCnt", "NodeList", "TimeUsed", "TimeLeft")
STATUS_FORMAT = "".join(f"{name}:|," for name in STATUS_FIELDS) + "StartTime:|"
STATUS = ["squeue", "--noheader", "--array", "--states=all", f"--Format={STATUS_FORMAT}"]
NEVER = "DependencyNeverSatisfied"
MOST_TASKS, MOST_JOBS = 1001, 10_000  # Slurm's defaults (slurm.conf(5)), where it tells none
UNIX_TIME = "%s"  # strftime(3): whatever the time zone of who asks
QUEUE_FORMAT = "JobArrayID:|,PriorityLong:|,Partition:|"
QUEUE = ["squeue", "--noheader", "--states=PENDING", f"--Format={QUEUE_FORMAT}"]
CONFIG = ["scontrol", "show", "config"]
SACCT = ["sacct", "--noheader", "--allocations", "--parsable2", "-oJobID,State,NodeList,ElapsedRaw"]

# What sbatch says when its message has gone, or may have, and no answer came.
LOST_REPLY = ("timed out", "Zero Bytes were transmitted or received", "Unexpected message received")
# What to look at when a job is refused, by the words in which it is: those of slurm_errno.c, the
# same from Slurm 22.05 to 26.05, and sbatch's own.
LIST_ACCOUNTS = "sacctmgr show associations user=$USER format=account%20,partition%20,qos%40"
LIST_NODE_KINDS = "sinfo --exact --format='%P %D %c %m %G %f'"
NODE_WORDS = (
    *("memory specification", "node configuration", "node count", "cpu count", "processors"),
    *("feature", "generic resource", "(gres)"),
)
LISTING_COMMANDS = (
    ("invalid partition", "sinfo --summarize"),
    ("partition name", "sinfo --summarize"),
    ("time limit", "sinfo --format='%P %l'"),
    ("account", LIST_ACCOUNTS),
    ("invalid qos", LIST_ACCOUNTS),
    ("qos policy", "sacctmgr show qos format=name,maxwall,maxtrespu,maxjobspu,maxsubmitpu"),
    ("dependency", "squeue --me"),
    ("reservation", "scontrol show reservations"),
    *((words, LIST_NODE_KINDS) for words in NODE_WORDS),
    ("node name", "sinfo --Node"),
)


class SlurmArrays(Arrays):
    def script(
        self, plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
    ) -> list[str]:
        option = f"--array={slurm_script.indices(tasks)}" + (f"%{at_once}" if at_once else "")
        log = slurm_script.array_log(array)
        lines = slurm_script.directives(plan, log or "/dev/null", cwd)
        own_log = not (log or plan.spec.output)
        start = self.start("bash", array, "SLURM_ARRAY_TASK_ID", log=own_log)
        return [Scheduler.SHEBANG, *lines, f"#SBATCH {option}", *start]

    def largest(self, count: int, highest: int) -> int:
        """Return MaxArraySize; raise Refused for more runs, or a higher number, than Slurm takes.

        MaxArraySize is one more than the highest number of a task.
        """
        config = {}
        with contextlib.suppress(MissingProgram):  # `--site NAME --dry-run` on another machine
            config = parse_config(query(CONFIG))
        size = int(config.get("MaxArraySize", MOST_TASKS))
        jobs = int(config.get("MaxJobCount", MOST_JOBS))
        if count >= jobs:
            raise Refused(
                f"{count} runs are more than Slurm takes here",
                f"scontrol show config: MaxJobCount = {jobs}, for all users together",
                id="array-too-many-jobs",
            )
        if highest >= size:
            raise Refused(
                f"Slurm takes no task with the number {highest} here",
                f"scontrol show config: MaxArraySize = {size}, one more than the highest number",
                change(array=f"0-{size - 1}") if size > 1 else "--sweep, which needs no arrays",
                id="array-number-too-high",
            )
        return max(1, size)


class Slurm(Scheduler):
    """Slurm; it lacks nothing, since the settings are its own options."""

    ARRAYS, STEPS = SlurmArrays(), SlurmSteps()

    def directives(self, plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
        return slurm_script.directives(plan, slurm_script.log_option(str(paths.log)), cwd)

    def opening(self, plan: Plan, paths: JobPaths, cwd: str, at_terminal: bool) -> list[str]:
        return [slurm_script.WHOLE_ENVIRONMENT]

    def by_hand(self, paths: JobPaths) -> str:
        return f"sbatch {shlex.quote(str(paths.script))}"

    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        return submit(paths.script)

    def is_id(self, text: str) -> bool:
        return JOB_ID.fullmatch(text) is not None

    def states(self, ids: Iterable[str]) -> dict[str, Status]:
        command = [*STATUS, f"--user={os.getuid()}"]
        known = parse_squeue(query(command, SLURM_TIME_FORMAT=UNIX_TIME))
        return {id: known[id] for id in ids if id in known}

    def history(self, ids: Iterable[str]) -> dict[str, Status]:
        """Ask the accounting; where there is none, nothing is known."""
        try:
            answer = shell.run([*SACCT, "-j", ",".join(ids)])
        except SystemFault:  # it is not on every machine from which jobs are submitted, or is slow
            return {}
        return parse_sacct(answer.out) if answer.code == 0 else {}

    def ahead(self, id: str) -> int | None:
        return parse_queue(query(QUEUE), id)

    def cancel(self, id: str) -> None:
        answer = shell.run(["scancel", id])
        if answer.code != 0:
            raise SystemFault(
                f"Slurm did not cancel job {id}", answer.err.strip(), id="cancel-failed"
            )


def parse_squeue(text: str) -> dict[str, Status]:
    """Parse lines of `id|STATE|reason|restarts|nodes|used|left|start|`.

    NOTE: squeue names a flag where a job has one, for a moment, such as SIGNALING while a warning
    or a preemption is under way (seen with 24.11). A word that is not known here is one of those,
    not an end.
    `used` and `left` are as in 1-02:03:04, or a word such as UNLIMITED.
    """
    statuses = {}
    for line in text.splitlines():
        id, word, reason, restarts, nodes, used, left, start = line.split("|")[:8]
        state = STATES.get(word, JobState.RUNNING)
        if reason == "None" or (state == JobState.CANCELLED and reason != NEVER):
            reason = ""  # of a cancelled job it is mostly why it had waited
        seen = Status(state, reason, None, int(restarts), nodes)
        if state == JobState.PENDING:
            statuses[id] = seen._replace(start=float(start) if start.isdigit() else None)
        else:
            statuses[id] = seen._replace(elapsed=limit_seconds(used), left=limit_seconds(left))
    return statuses


def parse_queue(text: str, id: str) -> int | None:
    """Parse lines of `id|priority|partition,...|`; the tasks of an array that wait are one line."""
    rows = [line.split("|")[:3] for line in text.splitlines()]
    order = {_number(row[0]): (-int(row[1]), _number(row[0])) for row in rows}
    partitions = {_number(row[0]): set(row[2].split(",")) for row in rows}
    number = _number(id)
    if number not in order:
        return None
    return sum(order[n] < order[number] and bool(partitions[n] & partitions[number]) for n in order)


def _number(id: str) -> int:
    """Return 123 of 123, 123_4 and 123_[5-9]."""
    return int(id.partition("_")[0])


def parse_sacct(text: str) -> dict[str, Status]:
    """Parse lines of `id|STATE|nodes|seconds`; CANCELLED goes on with "by UID"."""
    statuses = {}
    for line in text.splitlines():
        id, words, nodes, elapsed = line.split("|")
        state, _, reason = words.partition(" ")
        nodes = "" if nodes == "None assigned" else nodes
        known = STATES.get(state, JobState.UNKNOWN)
        statuses[id] = Status(known, reason, None, 0, nodes, float(elapsed) if elapsed else None)
    return statuses


def query(argv: Sequence[str], **variables: str) -> str:
    """Return what a command prints; raise SystemFault when the controller does not answer."""
    answer = shell.run(argv, env={**os.environ, **variables})
    if answer.code != 0:
        raise SystemFault(NO_ANSWER_TEXT, answer.err.strip(), "scontrol ping", id="slurm-silent")
    return answer.out


def parse_config(text: str) -> dict[str, str]:
    """Return the settings of `scontrol show config`, in which (null) stands for none."""
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            settings[name.strip()] = "" if value.strip() == "(null)" else value.strip()
    return settings


def submit(script: Path) -> str:
    """Submit a script; return the job number.

    Raises Refused with Slurm's own words, SystemFault when the controller does not answer.
    """
    check_controller(shell.run(["scontrol", "ping"], timeout=30))
    command = ["sbatch", "--parsable", str(script)]
    try:
        return parse_submit(shell.run(command, env=scrubbed(os.environ), apart=True))
    except shell.NoAnswer as error:
        raise no_answer(error.what, error.evidence) from None


def check_controller(answer: shell.Result) -> None:
    """Raise SystemFault unless `scontrol ping` found a controller; sbatch would wait long."""
    if answer.code != 0 or " UP" not in answer.out:
        raise SystemFault(
            f"{NO_ANSWER_TEXT}; nothing was submitted",
            (answer.out + answer.err).strip(),
            "scontrol ping, and ask the site's administrators if it stays down",
            id="slurm-controller-silent",
        )


def no_answer(message: str, output: str) -> RunnerError:
    """Return the error for a submission without an answer; `output` is what sbatch said before."""
    if "temporarily unable to accept job" in output:
        return Refused(
            "Slurm takes no more jobs now; nothing was submitted",
            f"{output}\nit keeps MaxJobCount jobs, those of all users and those that ended "
            "just now",
            "scontrol show config | grep MaxJobCount, squeue --me, and the same command later",
            id="slurm-full",
        )
    removed = "the run's folder is removed: such a job ends at once"
    return SystemFault(
        "Slurm did not answer; whether it has taken the job is not known",
        "\n".join(filter(None, [message, output, removed])),
        "squeue --me, and the same command once more",
        id="slurm-submit-silent",
    )


def parse_submit(answer: shell.Result) -> str:
    """Return the number from `sbatch --parsable`, which may add `;cluster`."""
    errors = answer.err.strip()
    if answer.code != 0 and any(words in errors for words in LOST_REPLY):
        raise no_answer("", errors)
    if answer.code != 0:
        remedy = listing_command(errors)
        raise Refused(
            "Slurm refused the job; nothing was submitted", errors, remedy, id="job-refused"
        )
    return answer.out.strip().splitlines()[-1].split(";")[0]


def listing_command(output: str) -> str:
    """Return the command that shows what there is instead; "" for a refusal of another kind."""
    words = output.lower()
    return next((command for part, command in LISTING_COMMANDS if part in words), "")


SCHEDULER = Slurm()
