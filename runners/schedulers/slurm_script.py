"""What Slurm reads in a script: the #SBATCH lines of one run, and of an array of runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from ..core.job_record import ArrayPaths
from ..core.model import Resources
from ..core.plan import Plan

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
