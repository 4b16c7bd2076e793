"""PBS Professional, as on ALCF's Polaris. Rendered and compared with whole scripts.

No PBS has run them; Debian's slurm-wlm-torque, whose qsub and qdel Slurm answers, has
(tests/real/test_pbs.py). It ignores `-l place`, and its qstat has neither -x nor JSON.

Facts: PBS Professional 2022.1 Reference Guide (qsub, qstat, "Job Exit Codes"), docs.alcf.anl.gov.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..core import shell
from ..core.diagnosis import Diagnosis, refusal
from ..core.errors import SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState, Status
from ..core.model import JobSpec, Resources, SchedulerName
from ..core.plan import Plan
from ..core.remedy import change
from . import capabilities
from .base import Arrays, clock, limit_seconds
from .qsub import Qsub, job_name, queue_options

STATES = {
    **dict.fromkeys("BER", JobState.RUNNING),  # B: an array that has begun
    **dict.fromkeys("HMQSTUW", JobState.PENDING),  # M: moved to another server; S: suspended
    **dict.fromkeys("FX", JobState.UNKNOWN),  # finished: how, its exit status tells
}
# Exit statuses that PBS gives itself (job.h, JOB_EXEC_KILL_*); others are the script's.
KILLED = {
    **dict.fromkeys((-26, -27), JobState.OUT_OF_MEMORY),
    **dict.fromkeys((-28, -29), JobState.TIMEOUT),
}
SIGNAL = 256  # added to the number of the signal that ended the script
DELETED = 91  # the substate of a job that qdel ended
# PBS's "chunk" has attributes of nodes as NAME=VALUE, such as system=polaris.
ATTRIBUTES = re.compile(r"[\w.-]+=[\w.-]+(:[\w.-]+=[\w.-]+)*")
# PBS reads K, M, G and T as kb, mb, gb, tb of 1024, as Slurm does.
MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)


class PbsArrays(Arrays):
    """PBS's job arrays: a range of numbers with a step, and no lists."""

    OWN_NUMBERS = False

    def script(
        self, plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
    ) -> list[str]:
        option = f"-J {tasks[0]}-{tasks[-1]}" + (f"%{at_once}" if at_once else "")
        start = self.start("bash -l", array, "PBS_ARRAY_INDEX")
        return [Qsub.SHEBANG, *directives(plan), f"#PBS {option}", *start]

    def task_id(self, whole: str, task: int) -> str:
        """Return the identifier of one task, 123[4].server of 123[].server."""
        return whole.replace("[]", f"[{task}]")

    def whole_id(self, id: str) -> str:
        return re.sub(r"\[\d+\]", "[]", id)


class Pbs(Qsub):
    ARRAYS = PbsArrays()
    title, number = capabilities(SchedulerName.PBS).title, re.compile(r".+")
    has = ("constraint", "mem", "dependency")

    def refusals(self, spec: JobSpec, resources: Resources) -> tuple[Diagnosis, ...]:
        return (*super().refusals(spec, resources), *_unclear(resources))

    def directives(self, plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
        return directives(plan)

    def states_argv(self, ids: Iterable[str]) -> list[str]:
        """Return the command; -x also tells of finished jobs, for as long as the site keeps them.

        Of an array, -t tells of each task, 123[4].server of 123[].server.
        """
        wholes = list(dict.fromkeys(self.ARRAYS.whole_id(id) for id in ids))
        tasks = ["-t"] if any("[]" in id for id in wholes) else []
        return ["qstat", "-x", *tasks, "-f", "-F", "json", *wholes]

    def parse_states(self, answer: shell.Result) -> dict[str, Status]:
        """Return states by number; what qstat says of jobs that it does not know is left out.

        Raises SystemFault with what it printed when that is not JSON, or nothing.
        """
        if not answer.out.strip() and re.search(r"Unknown Job I[dD]", answer.err):
            return {}
        try:
            jobs = json.loads(answer.out)["Jobs"]
            return {id.split(".")[0]: _status(job) for id, job in jobs.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            message = (answer.err.strip() or answer.out.strip())[:500]
            what = "PBS's answer was not understood"
            raise SystemFault(what, message, "qstat -x -f -F json", id="pbs-answer") from None


def _unclear(resources: Resources) -> Iterator[Diagnosis]:
    constraint = resources.constraint
    if constraint and not ATTRIBUTES.fullmatch(constraint):
        yield refusal(
            "constraint-not-of-scheduler",
            "PBS has no --constraint but attributes of nodes",
            f"--constraint is {constraint}, and not like system=polaris",
            change(leave_out=["constraint"]),
        )
    if resources.mem and not MEMORY.fullmatch(resources.mem):
        yield refusal(
            "mem-not-of-scheduler",
            f"PBS reads no --mem {resources.mem}",
            "",
            change(leave_out=["mem"]),
        )
    for option, text in (("gpus-per-node", resources.gpus_per_node), ("gres", resources.gres)):
        if text and _gpus(text) is None:
            what = f"PBS counts GPUs without a type or another name: --{option} {text}"
            number = text.rpartition(":")[2]
            gone = ["gres"] if option == "gres" else []
            remedy = change(gpus_per_node=number, leave_out=gone)
            remedies = [remedy] if number.isdigit() else []
            yield refusal("gpus-not-of-scheduler", what, "its resource is ngpus", *remedies)


def directives(plan: Plan) -> list[str]:
    """Return the #PBS lines; --sbatch-arg follows as it is, for what else a site wants.

    The script writes its log itself, so PBS's copy of the output is dropped.
    """
    resources = plan.resources
    options = [f"-N {job_name(plan.spec.name)}", "-j oe", "-o /dev/null"]
    options.append(f"-l select={select(resources)}")
    options.append("-l place=" + ("scatter:excl" if resources.exclusive else "scatter"))
    limit = limit_seconds(resources.time) if resources.time else None
    if limit is not None:
        options.append(f"-l walltime={clock(limit)}")
    options += queue_options(resources)
    if plan.interruption.requeue is not None:
        options.append("-r y" if plan.interruption.requeue else "-r n")
    if resources.dependency:
        options.append(f"-W depend={resources.dependency}")
    return [f"#PBS {option}" for option in (*options, *plan.spec.sbatch_args)]


def select(resources: Resources) -> str:
    """Return the nodes as chunks: what each has to give, unless whole nodes are taken."""
    parts = [str(resources.nodes)]
    if resources.constraint:
        parts.append(resources.constraint)
    if not resources.exclusive:
        tasks = resources.tasks_of_a_node
        parts += [f"ncpus={tasks * (resources.cpus_per_task or 1)}", f"mpiprocs={tasks}"]
        gpus = _gpus(resources.gpus_per_node or resources.gres or "")
        parts += [f"ngpus={gpus}"] if gpus else []
    if resources.mem:
        number, unit = MEMORY.fullmatch(resources.mem).groups()  # type: ignore[union-attr]
        parts.append(f"mem={number}{(unit or 'M').lower()}b")
    return ":".join(parts)


def _gpus(text: str) -> int | None:
    """Return N of `N` or `gpu:N`."""
    match = re.fullmatch(r"(?:gpu:)?(\d+)", text)
    return int(match.group(1)) if match else None


def _status(job: dict[str, Any]) -> Status:
    """Return what qstat says of a job; exec_host is like n1/0*4+n2/0*4."""
    state = STATES.get(str(job.get("job_state")), JobState.UNKNOWN)
    reason = str(job.get("comment", "")) if state == JobState.PENDING else ""
    if job.get("job_state") in ("F", "X"):
        state, reason = ended(job.get("Exit_status"), job.get("substate"))
    hosts = str(job.get("exec_host", "")).split("+")
    nodes = ",".join(dict.fromkeys(host.partition("/")[0] for host in hosts))
    used = limit_seconds(str(job.get("resources_used", {}).get("walltime", "")))
    limit = limit_seconds(str(job.get("Resource_List", {}).get("walltime", "")))
    left = None if used is None or limit is None or state.ended else float(limit - used)
    return Status(state, reason, None, 0, nodes, used, left)


def ended(status: int | None, substate: object = None) -> tuple[JobState, str]:
    """Return how a finished job ended, from its exit status; without one it never ran."""
    if status is None or str(substate) == str(DELETED):
        return JobState.CANCELLED, ""
    if status in KILLED:
        return KILLED[status], ""
    if status > SIGNAL:
        return JobState.FAILED, f"ended by signal {status - SIGNAL}"
    if status < 0:
        return JobState.NODE_FAIL, f"PBS could not run it: exit status {status}"
    return (JobState.COMPLETED, "") if status == 0 else (JobState.FAILED, "")


SCHEDULER = Pbs()
