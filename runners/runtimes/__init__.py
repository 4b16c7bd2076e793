"""What runs the image, as Apptainer does: the tokens before a command, the variables around it.

Adding one is a function that returns the tokens, and a row here. What is refused for what a row
says is in `limits`. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..core import quoting
from ..core.model import BY_MODULES, BindMount, Dataset, RuntimeName, SchedulerName, Staged
from ..core.plan import Plan, Where
from ..schedulers import SCHEDULERS
from . import command_lines
from .command_lines import PREFIX, Container, Runtime

RUNTIMES: Mapping[RuntimeName, Runtime] = {
    RuntimeName.APPTAINER: Runtime(
        command_lines.apptainer, has_files=True, prefix="APPTAINERENV_", takes_ssh=True
    ),
    RuntimeName.SINGULARITY: Runtime(
        command_lines.apptainer, has_files=True, prefix="SINGULARITYENV_", takes_ssh=True
    ),
    RuntimeName.SHIFTER: Runtime(
        command_lines.shifter,
        pull="shifterimg pull",
        values_as_options=True,
        own_mpi="--module=mpich",
        separators=":;",
    ),
    RuntimeName.PODMAN: Runtime(
        command_lines.podman,
        pull="podman pull",
        values_as_options=True,
        prepare=command_lines.PULL,
    ),
    RuntimeName.PODMAN_HPC: Runtime(
        command_lines.podman_hpc,
        pull="podman-hpc pull",  # and to where the nodes look
        values_as_options=True,
        own_mpi="--mpi",
    ),
    # The image is the folder of a virtual or conda environment, on each node.
    RuntimeName.NONE: Runtime(lambda container: [], takes_ssh=True),
}
FILES = tuple(name for name, runtime in RUNTIMES.items() if runtime.has_files)
STORES = tuple(name for name, runtime in RUNTIMES.items() if runtime.pull)
DATA_TARGET = "/data"
# Of the login shell, these would lead the image's Python and loader to the host's files.
# LD_LIBRARY_PATH is not among them: srun may need it, and apptainer never passes it on.
LEAKS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_PRELOAD")


def argv(plan: Plan, run_dir: str) -> list[str]:
    """Return the tokens that put a command into the image; none without a container."""
    binds = (*plan.binds, *_of_host_mpi(plan), BindMount(run_dir, run_dir))
    container = Container(plan, binds, _fixed(plan, run_dir))
    return RUNTIMES[plan.launching.runtime].argv(container)


def exports(plan: Plan, run_dir: str) -> list[tuple[str, str]]:
    """Return what the job exports for the container, each with its value as bash reads it.

    The user's own variable, be it exported for the container or for everything, comes before the
    plan's.
    """
    runtime, lines = RUNTIMES[plan.launching.runtime], _first_exports(plan)
    for variable in (v for v in plan.variables if v.where is Where.CONTAINER and not v.forced):
        names = dict.fromkeys((runtime.prefix + variable.name, variable.name))
        lines.append((next(iter(names)), quoting.default(quoting.path(variable.value), *names)))
    fixed = {} if runtime.values_as_options else _fixed(plan, run_dir)
    return lines + [(runtime.prefix + name, quoting.quote(value)) for name, value in fixed.items()]


def _first_exports(plan: Plan) -> list[tuple[str, str]]:
    """Return what a runtime needs beside the variables for the container.

    NO_EVAL: otherwise a shell would expand each value (Singularity understands it from 3.10).
    The activation script of an environment is not read: what that sets beyond the PATH belongs in
    --env.
    """
    if plan.launching.runtime is RuntimeName.NONE:
        if plan.spec.image.brought_by == BY_MODULES:
            return []
        path = quoting.quote(f"{plan.spec.image.path}/bin") + ':"$PATH"'
        # The job's own ssh (injob/ssh.py) comes before that of a conda environment.
        before = '"${NONEENV_PREPEND_PATH:+$NONEENV_PREPEND_PATH:}"' if plan.ssh else ""
        return [("PATH", before + path)]
    if RUNTIMES[plan.launching.runtime].prefix:
        return [(f"{plan.launching.runtime.upper()}_NO_EVAL", "1")]
    return []


def prepare(plan: Plan) -> list[str]:
    """Return what has to run once on each node before the ranks; mostly nothing."""
    command = RUNTIMES[plan.launching.runtime].prepare
    return [*command, str(plan.spec.image.path)] if command else []


def own_names(plan: Plan) -> list[str]:
    """Return the names under which the job's shell exports the user's own variables."""
    runtime = RUNTIMES[plan.launching.runtime]
    return [runtime.prefix + name for name, _ in plan.spec.env if not runtime.values_as_options]


def read_own(plan: Plan, file: str) -> list[str]:
    """Return the line by which the job's shell exports them, which win over all."""
    prefix = RUNTIMES[plan.launching.runtime].prefix
    before = f"{PREFIX}={prefix} " if prefix else ""
    return [f'{before}. "$run/{file}" || exit'] if own_names(plan) else []


def own_file(plan: Plan) -> str:
    """Return the text of their file, which sh reads too; "" where there are none."""
    lines = (f'export "${{{PREFIX}}}{name}"={shlex.quote(text)}' for name, text in plan.spec.env)
    return "".join(f"{line}\n" for line in lines)


def is_module_of_one(module: str) -> bool:
    """Whether a module of the site, and each alternative to it, is of what runs images."""
    return all(name.partition("/")[0] in RUNTIMES for name in module.split("|"))


def ssh_possible(scheduler: SchedulerName, runtime: RuntimeName) -> bool:
    """Whether the container of such a job can have an ssh to the other nodes."""
    return SCHEDULERS[scheduler].STEPS is not None and RUNTIMES[runtime].takes_ssh


def python(plan: Plan) -> str:
    """Return the Python of the image, or of the environment by its full path."""
    if plan.launching.runtime is not RuntimeName.NONE or plan.spec.image.brought_by == BY_MODULES:
        return "python3"
    return f"{plan.spec.image.path}/bin/python"


def _of_host_mpi(plan: Plan) -> list[BindMount]:
    """Return the mounts of the host's MPI, given as SOURCE or SOURCE:TARGET."""
    binds = []
    for text in plan.host_mpi.binds if plan.host_mpi else ():
        source, _, target = text.partition(":")
        binds.append(BindMount(source, target or source, read_only=True))
    return binds


def data_target(dataset: Dataset) -> str:
    """Return where the ranks see a dataset in a container."""
    return f"{DATA_TARGET}/{dataset.name}" if dataset.name else DATA_TARGET


def _data_dir(plan: Plan) -> str:
    """Return where trainers look: the only dataset, or the folder of several."""
    first, *others = plan.spec.data
    if plan.launching.runtime is RuntimeName.NONE:
        return quoting.path(Staged(first.entry) if plan.staging.copies_data else str(first.path))
    return DATA_TARGET if others else data_target(first)


def _fixed(plan: Plan, run_dir: str) -> dict[str, str]:
    """Return the variables that win within, but for those that the user sets."""
    variables = {"PYTHONNOUSERSITE": "1", "OUTPUT_DIR": run_dir}
    if plan.spec.data:
        variables["DATA_DIR"] = _data_dir(plan)
    if plan.host_mpi and plan.host_mpi.library_path:
        variables["LD_LIBRARY_PATH"] = quoting.search_path(plan.host_mpi.library_path)
    forced = [v for v in plan.variables if v.where is Where.CONTAINER and v.forced]
    variables.update({v.name: quoting.path(v.value) for v in forced})
    return {name: value for name, value in variables.items() if name not in dict(plan.spec.env)}
