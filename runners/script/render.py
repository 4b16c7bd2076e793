"""Plan -> the text of the batch script. The one place that joins and quotes tokens."""

from __future__ import annotations

import shlex

from .. import __version__
from ..core import tokens
from ..core.job_record import JobPaths
from ..core.model import Plan
from ..injob.folders import MPICHECK, STAGE
from ..injob.mpicheck import EXIT_HOST_MPI
from ..schedulers import SCHEDULERS
from . import exit_trap, launchers, runtimes
from . import stage_lines as staging
from .environment import exports

# Of the login shell, these would lead the image's Python and loader to the host's files.
# LD_LIBRARY_PATH is not among them: srun may need it, and apptainer never passes it on.
LEAKS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_PRELOAD")

EXIT_NOT_VERIFIED = 81
EXIT_NO_MODULE = 93

SHEBANG = "#!/bin/bash"
WHERE = "code/where.sh"
# By these Open MPI takes a process for one of srun's ranks, and ends it for want of PMI; and an
# mpirun in the image would start ranks by an srun that is not there. SLURM_JOB_ID is not missed.
NO_STEP = ("unset SLURM_STEP_ID SLURM_STEPID SLURM_JOBID SLURM_NODELIST",)


def render(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the whole script; `cwd` is the folder in which the job runs."""
    parts = [*_beginning(plan, paths, cwd), *_same_image(plan), *_surroundings(plan)]
    parts += _staging(plan, paths)
    parts += [*_exports(plan, paths), "", *_check_of_host_mpi(plan, paths)]
    return "\n".join([*parts, *exit_trap.around(plan, command(plan, paths)), ""])


def session(plan: Plan, paths: JobPaths, cwd: str, line: str, by_hand: str = "") -> str:
    """Return the script of a job that runs `line`, which goes by `enter`, and starts no ranks.

    `by_hand` is the command that starts it again, where that is not the scheduler's usual one.
    """
    parts = [*_beginning(plan, paths, cwd, by_hand), *_staging(plan, paths)]
    return "\n".join([*parts, *exit_trap.around(plan, line), ""])


def _beginning(plan: Plan, paths: JobPaths, cwd: str, by_hand: str = "") -> list[str]:
    scheduler = SCHEDULERS[plan.scheduler]
    parts = [scheduler.SHEBANG, *scheduler.directives(plan, paths, cwd)]
    parts += ["", *_header(plan, paths, by_hand), f"run={shlex.quote(str(paths.root))}"]
    return [*parts, *scheduler.opening(plan, paths, cwd), "", *exit_trap.opening(plan), ""]


def enter(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the script that runs a command as the ranks run: in their image, with their mounts.

    It is started by hand, by a step beside the ranks, or by a job that has none.
    """
    parts = [SHEBANG, f"# Written by runner {__version__}: a command in the container of this run."]
    parts += [f"# bash {shlex.quote(str(paths.enter))} COMMAND [ARG]..."]
    parts += [f"run={shlex.quote(str(paths.root))}", f"cd {shlex.quote(cwd)} || exit"]
    parts += [f'. "$run/{WHERE}" || exit'] if plan.stages else []
    parts += ["", *_same_image(plan), *_surroundings(plan), *NO_STEP, *_exports(plan, paths), ""]
    return "\n".join([*parts, tokens.join(["exec", *_container(plan, paths)]) + ' "$@"', ""])


def _staging(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the lines that stage data and image, and leave for `enter` what only they know."""
    if not plan.stages:
        return []
    lines = staging.of(plan, str(paths.injob / STAGE.name))
    return [*lines, f'printf "stage=%q\\n" "$stage" > "$run/{WHERE}"', ""]


def _header(plan: Plan, paths: JobPaths, by_hand: str) -> list[str]:
    lines = [f"# Written by runner {__version__}."]
    by_hand = by_hand or SCHEDULERS[plan.scheduler].by_hand(paths)
    lines += [f"# Submit it again by hand: {by_hand}"] if by_hand else []
    choices = [f"{d.what}: {d.value} ({d.reason})" for d in plan.decisions]
    # A line break in a value must not end the comment.
    return [*lines, *("# " + " ".join(text.splitlines()) for text in choices)]


def _same_image(plan: Plan) -> list[str]:
    """Return the check that the image is still the file that the policy allowed.

    Of a staged one each node checks its own copy (data/stage).
    """
    if not plan.verified_digest or plan.image_form:
        return []
    image, digest = shlex.quote(str(plan.spec.image)), plan.verified_digest.partition(":")[2]
    return [
        f'if [ "$(sha256sum < {image})" != "{digest}  -" ]; then',
        f"  echo runner: {image} is no longer the file that the policy allowed >&2",
        f"  exit {EXIT_NOT_VERIFIED}",
        "fi",
    ]


def _surroundings(plan: Plan) -> list[str]:
    """Return what keeps the user's shell out, and the modules.

    What modules set stays out of a container too; without one it is meant for the trainer.
    """
    out = f"unset {' '.join(LEAKS)}"
    modules = [f"module use {shlex.quote(folder)}" for folder in plan.module_use]
    names = (*plan.spec.modules, *(plan.host_mpi.modules if plan.host_mpi else ()))
    modules += [_load(shlex.quote(name)) for name in names]
    return [out, *modules] if plan.runtime == "none" else [*modules, out]


def _load(module: str) -> str:
    """Return the line that loads a module; without it the job would fail later, and look odd."""
    words = shlex.quote(f"runner: no module {module}: it could not be loaded on this node")
    return f"module load {module} || {{ echo {words} >&2; exit {EXIT_NO_MODULE}; }}"


def _exports(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the job's variables, then those for within the container."""
    return [f"export {name}={text}" for name, text in exports(plan, str(paths.root))]


def command(plan: Plan, paths: JobPaths) -> str:
    """Return the line that starts the ranks, one group of tokens to a line for the reader."""
    shim = [runtimes.python(plan), str(paths.injob / "rank"), *launchers.shim_options(plan)]
    shim += ["--controller", plan.controller]
    if plan.spec.interface:
        shim += ["--interface", plan.spec.interface]
    if plan.nv:
        shim += ["--nv", *(["--driver", plan.driver] if plan.driver else [])]
    shim += ["--run-dir", str(paths.root), "--"]
    return _ranks(plan, paths, [*launchers.inside(plan), *shim], _trainer(plan))


def _ranks(plan: Plan, paths: JobPaths, *inside: list[str]) -> str:
    """Return the line that starts something once for each rank, in the container."""
    groups = [launchers.outside(plan), _container(plan, paths), *inside]
    return " \\\n  ".join(tokens.join(group) for group in groups if group)


def _container(plan: Plan, paths: JobPaths) -> list[str]:
    return runtimes.argv(plan, str(paths.root))


def _check_of_host_mpi(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the check that the ranks find the host's MPI in the image, and each other by it."""
    if plan.host_mpi is None:
        return []
    check = [runtimes.python(plan), str(paths.injob / MPICHECK.name), "--launcher", plan.launcher]
    line = _ranks(plan, paths, [*check, "--run-dir", str(paths.root)])
    return [
        "# The host's MPI in the image, before the job proper: found, complete, and one world.",
        line + " || {",
        '  echo "runner: the check of the host\'s MPI in the image failed, exit code $?" >&2',
        f"  exit {EXIT_HOST_MPI}",
        "}",
        "",
    ]


def _trainer(plan: Plan) -> list[str]:
    trainer = plan.spec.trainer
    program = ["-m", trainer.module] if trainer.module else [str(trainer.file)]
    return [*program, *trainer.args]
