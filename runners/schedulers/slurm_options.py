"""Plan -> the #SBATCH lines of a script. Pure."""

from __future__ import annotations

from dataclasses import fields

from ..core.job_record import JobPaths
from ..core.model import Plan, Resources


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the #SBATCH lines."""
    spec = plan.spec
    output = spec.output or log_option(str(paths.log))
    options = [f"--job-name={spec.name}", f"--output={output}", f"--chdir={cwd}"]
    options += [*resource_options(spec.resources), *_interrupted(plan)]
    return [f"#SBATCH {directive(option)}" for option in (*options, *spec.sbatch_args)]


def log_option(path: str) -> str:
    """Return a path as sbatch's --output reads it: without patterns.

    NOTE: with a backslash anywhere in it Slurm fills in no patterns, and takes one backslash of
    each two (sbatch(1), "filename pattern"; ran with 24.11).
    """
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def _interrupted(plan: Plan) -> list[str]:
    """Return what makes a job come back: sbatch would begin a new log at each start.

    Or what keeps it from coming back: with its own default (JobRequeue=1) Slurm queues a job again
    that has lost a node. It would begin anew, over what it had, and a client would wait on.
    """
    options = [] if plan.spec.requeue else ["--no-requeue"]
    options += ["--requeue", "--open-mode=append"] if plan.restarts else []
    return options + ([] if plan.warning is None else [f"--signal=B:USR1@{plan.warning}"])


def resource_options(resources: Resources) -> list[str]:
    """Return one long option for each resource that is asked for."""
    options = []
    for item in fields(resources):
        value = getattr(resources, item.name)
        name = "--" + item.name.replace("_", "-")
        if value is True:
            options.append(name)
        elif value is not None and value is not False:
            options.append(f"{name}={value}")
    return options


def directive(option: str) -> str:
    """Quote an option as sbatch reads its own lines: double quotes, backslash before them."""
    if not any(char in option for char in " \t\"'\\#"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
