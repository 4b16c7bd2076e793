"""What a job gets from its login shell, its modules and its plan, each as bash reads it. Pure.

The values of --env may be passwords: they stand in a file of the run's folder that only its owner
reads, and the scripts, which everybody may read, name the variables alone.
"""

from __future__ import annotations

import shlex

from .. import runtimes
from ..contract.exit_codes import EXIT_NO_MODULE
from ..contract.log_text import NO_MODULE
from ..core import quoting
from ..core.job_record import JobPaths
from ..core.model import RuntimeName
from ..core.plan import Plan, Where

# Files and functions of the host's shells, which each bash and sh in a container would load. A
# function such as Red Hat's `which` calls the host's program with options that others do not know.
SHELLS = ("unset BASH_ENV ENV", 'for name in $(compgen -A function); do export -fn "$name"; done')
# By these Open MPI takes a process for one of srun's ranks, and ends it for want of PMI; and an
# mpirun in the image would start ranks by an srun that is not there, or count one slot a node.
# Those that it gives its ranks may name another node. SLURM_JOB_ID is not missed.
NO_STEP = (
    "unset SLURM_STEP_ID SLURM_STEPID SLURM_JOBID SLURM_NODELIST SLURMD_NODENAME",
    "unset OMPI_MCA_plm_slurm_args PRTE_MCA_plm_slurm_args",
)


def modules(plan: Plan) -> list[str]:
    """Return the lines that unset what leaks in, unload modules where asked, and load others.

    What modules set stays out of a container too; without one it is meant for the trainer.
    """
    out = f"unset {' '.join(runtimes.LEAKS)}"
    use = ["module purge"] if plan.modules.purge else []
    use += [f"module use {shlex.quote(folder)}" for folder in plan.modules.folders]
    names = (*plan.modules.names, *(plan.host_mpi.modules if plan.host_mpi else ()))
    on_host = plan.launching.runtime is RuntimeName.NONE
    load = [_load(name) for name in names if not (on_host and runtimes.is_module_of_one(name))]
    if on_host:
        return [out, *use, *load]
    return [*use, *load, out, *SHELLS]


def _load(module: str) -> str:
    """Return the line that loads a module, or the first of its alternatives that is there.

    Without it the job would fail later, and look odd.
    """
    words = shlex.quote(f"{NO_MODULE}{module}: it could not be loaded on this node")
    load = " || ".join(f"module load {shlex.quote(name)}" for name in module.split("|"))
    return f"{load} || {{ echo {words} >&2; exit {EXIT_NO_MODULE}; }}"


def lines(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the script's lines: the plan's variables, then the user's own, which win."""
    lines = [f"export {name}={text}" for name, text in exports(plan, str(paths.root))]
    if plan.spec.env:
        names = " ".join(name for name, _ in plan.spec.env)
        lines += [f"# The values of {names} stand where only their owner reads them."]
        lines += runtimes.read_own(plan, str(paths.env.relative_to(paths.root)))
    return lines


def exports(plan: Plan, run_dir: str) -> list[tuple[str, str]]:
    """Return the job's own variables, then those by which the runtime fills the container.

    Of two with one name the first is taken: the plan's own come before the site's.
    """
    variables: dict[str, str] = {}
    for v in (v for v in plan.variables if v.where is Where.JOB):
        value = quoting.path(v.value)
        text = shlex.quote(value) if v.forced else quoting.default(value, v.name)
        variables.setdefault(v.name, text)
    return [*variables.items(), *runtimes.exports(plan, run_dir)]


def names(plan: Plan) -> list[str]:
    """Return their names, for launchers that take only what they are told."""
    plan_names = [*(name for name, _ in exports(plan, "")), *runtimes.own_names(plan)]
    return list(dict.fromkeys(plan_names))
