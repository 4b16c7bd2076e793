"""The text that Slurm reads: #SBATCH lines, salloc's options, srun's of a step in a job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

from ..core import shell
from ..core.errors import Refused, SystemFault, UsageError
from ..core.job_record import ArrayPaths
from ..core.model import Resources
from ..core.plan import Plan
from .base import JobLocation, Steps

NO_ANSWER_TEXT = "Slurm's controller does not answer"
# These two reach sbatch although all else of Slurm's is removed: they say which cluster it is.
KEPT_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS")
# salloc's own words, the same from 22.05 to 26.05: "salloc: Pending job allocation 42".
SALLOC_LINE = re.compile(r"^salloc: (Pending|Granted) job allocation (\d+)$")
# Which node says what, where several do; the command's exit code stays.
LABELLED = """\
set -o pipefail
label() { sed -u "s/^/$SLURMD_NODENAME | /"; }
{ "$0" "$@" 2>&1 >&3 3>&- | label >&2; } 3>&1 | label"""
# With sbatch's --export=NONE, or a list, srun gives the ranks no more than that: no PATH either.
WHOLE_ENVIRONMENT = "unset SLURM_EXPORT_ENV SRUN_EXPORT_ENV"
# By these srun takes the request of the job and of the step around this script for its own. Its
# own request is on its command line. A step sets SLURM_CPU_BIND_TYPE and three more, a user
# SLURM_CPU_BIND alone.
OWN_REQUEST = f"""\
{WHOLE_ENVIRONMENT} SLURM_TRES_PER_TASK SLURM_TRES_BIND
unset SLURM_CPUS_PER_TASK SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU
[ -z "$SLURM_CPU_BIND_TYPE" ] || unset "${{!SLURM_CPU_BIND@}}\""""


def directives(plan: Plan, output: str, cwd: str) -> list[str]:
    """Return the #SBATCH lines; `output` is as sbatch's option, unless --output was given."""
    spec = plan.spec
    options = [f"--job-name={spec.name}", f"--output={spec.output or output}", f"--chdir={cwd}"]
    options += [*resource_options(plan.resources), *_interrupted(plan), *spec.sbatch_args]
    return [f"#SBATCH {directive(option)}" for option in options]


def log_option(path: str) -> str:
    """Return a path as sbatch's --output reads it: without patterns.

    NOTE: with a backslash anywhere in it Slurm fills in no patterns, and takes one backslash of
    each two (sbatch(1), "filename pattern"; ran with 24.11).
    """
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def _interrupted(plan: Plan) -> list[str]:
    """Return what makes a job come back: sbatch would begin a new log at each start.

    Or what keeps it from coming back: with its own default (JobRequeue=1) Slurm queues a job again
    that has lost a node. It would start over, overwrite its results, and a client would wait on.
    """
    interruption, seconds = plan.interruption, plan.interruption.signal
    options = [] if interruption.requeue else ["--no-requeue"]
    options += ["--requeue", "--open-mode=append"] if interruption.requeue_limit else []
    return options if seconds is None else [*options, f"--signal=B:USR1@{seconds}"]


def resource_options(resources: Resources) -> list[str]:
    """Return one long option for each resource that is asked for."""
    options = []
    for item in fields(resources):
        value = getattr(resources, item.name)
        if value is not None and value is not False:
            name = "--" + item.name.replace("_", "-")
            options.append(name if value is True else f"{name}={value}")
    return options


def directive(option: str) -> str:
    """Quote an option as sbatch reads its own lines: double quotes, backslash before them."""
    if not any(char in option for char in " \t\"'\\#"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def array_log(array: ArrayPaths) -> str:
    """Return a pattern by which Slurm writes a task's log, with its own words on the job's end.

    It leads through the link of the task; it is "" where no pattern can (see log_option).
    """
    folder = str(array.tasks)
    return "" if "\\" in folder else folder.replace("%", "%%") + "/%a/logs/job.log"


def indices(tasks: Sequence[int]) -> str:
    """Return numbers in sbatch's form, such as 0-3,7,10-11; they are in order."""
    spans: list[list[int]] = []
    for task in tasks:
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a surrounding job, or SBATCH_*, would tell sbatch."""
    prefixes = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")
    return {
        name: value
        for name, value in env.items()
        # PMIX_MCA_* are the user's settings, which no job makes.
        if name in KEPT_VARIABLES or name.startswith("PMIX_MCA_") or not name.startswith(prefixes)
    }


def salloc(plan: Plan) -> list[str]:
    """Return the command that waits for nodes at a terminal, without what runs in them."""
    options = [f"--job-name={plan.spec.name}", *resource_options(plan.resources)]
    return ["salloc", *options, *plan.spec.sbatch_args]


def parse_salloc(line: str) -> tuple[str, bool] | None:
    """Return a job's number, and whether it has its nodes, from a line of what salloc says."""
    match = SALLOC_LINE.match(line)
    return (match.group(2), match.group(1) == "Granted") if match else None


class SlurmSteps(Steps):
    """srun in a job that runs."""

    def location(self, id: str) -> JobLocation:
        """Return where a job runs; raise Refused when it does not, SystemFault without an answer.

        The number is that of the job, which a task of an array has too; what runs within another
        job (allocation.py) begins with that one's.
        """
        id = id.partition(".")[0]
        answer = shell.run(["squeue", "--noheader", f"--jobs={id}", "--format=%A|%T|%N"])
        errors = answer.err.strip()
        if answer.code != 0 and "Invalid job id" not in errors:
            raise SystemFault(NO_ANSWER_TEXT, errors, "scontrol ping", id="slurm-silent")
        number, state, nodes = (answer.out.strip() or "||").split("|")
        if state != "RUNNING":
            why = f"its state: {state.lower()}" if state else "it has ended"
            raise Refused(
                f"job {id} does not run", why, f"runner status {id}", id="job-not-running"
            )
        return JobLocation(number, self.names(nodes))

    def names(self, nodes: str) -> tuple[str, ...]:
        answer = shell.run(["scontrol", "show", "hostnames", nodes])
        if answer.code != 0:
            errors = answer.err.strip()
            raise UsageError(
                f"{nodes!r} is no list of nodes",
                errors,
                "-w n1,n2 or n[1-2]",
                id="nodelist-malformed",
            )
        return tuple(answer.out.split())

    def argv(
        self,
        location: JobLocation,
        command: Sequence[str],
        pty: bool = False,
        labelled: bool = False,
    ) -> list[str]:
        pty = pty and len(location.nodes) == 1
        where = [f"--jobid={location.number}", f"--nodelist={','.join(location.nodes)}"]
        where += [] if pty else ["--quit-on-interrupt"]
        label = ["bash", "-c", LABELLED] if labelled and len(location.nodes) > 1 else []
        return [*self.within(len(location.nodes), pty), *where, *label, *command]

    def within(self, nodes: int, pty: bool = False) -> list[str]:
        """Return srun and its options for a step beside all others: one task on each node.

        Without PMI, which would make it a world; with all CPUs and the memory of the job there.
        """
        return [*self.once_per_node(nodes), "--mem=0", *(["--pty"] if pty else [])]

    def once_per_node(self, nodes: int) -> list[str]:
        """Return srun and its options for a helper that takes no memory to speak of."""
        argv = ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
        return [*argv, "--mpi=none", "--cpu-bind=none"]

    def list_nodes(self, nodes: int) -> str:
        return f'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n {nodes}'

    def environment(self) -> dict[str, str]:
        return scrubbed(os.environ)
