"""The command that starts the ranks: launcher, container, shim, trainer. Pure."""

from __future__ import annotations

from ..core import tokens
from ..core.job_record import JobPaths
from ..core.model import Plan
from ..injob.folders import MPICHECK
from . import launchers, runtimes


def command(plan: Plan, paths: JobPaths) -> str:
    """Return the line that starts the ranks, one group of tokens to a line for the reader."""
    return _on_each_rank(
        plan, paths, [*launchers.inside(plan), *_shim(plan, paths)], _trainer(plan)
    )


def check_of_host_mpi(plan: Plan, paths: JobPaths) -> str:
    """Return the line that starts, in place of the ranks, the check of their MPI."""
    check = [runtimes.python(plan), str(paths.code / "injob" / MPICHECK.name)]
    options = ["--launcher", plan.launcher, "--run-dir", str(paths.root)]
    return _on_each_rank(plan, paths, [*check, *options])


def one(plan: Plan, paths: JobPaths) -> str:
    """Return the line that runs the command of `enter` in the container, once."""
    return tokens.join(["exec", *runtimes.argv(plan, str(paths.root))]) + ' "$@"'


def _on_each_rank(plan: Plan, paths: JobPaths, *inside: list[str]) -> str:
    groups = [launchers.outside(plan), runtimes.argv(plan, str(paths.root)), *inside]
    return " \\\n  ".join(tokens.join(group) for group in groups if group)


def _shim(plan: Plan, paths: JobPaths) -> list[str]:
    shim = [runtimes.python(plan), str(paths.code / "injob/rank"), *launchers.shim_options(plan)]
    shim += ["--controller", plan.controller]
    if plan.spec.interface:
        shim += ["--interface", plan.spec.interface]
    if plan.nv:
        shim += ["--nv", *(["--driver", plan.driver] if plan.driver else [])]
    return [*shim, "--run-dir", str(paths.root), "--"]


def _trainer(plan: Plan) -> list[str]:
    trainer = plan.spec.trainer
    program = ["-m", trainer.module] if trainer.module else [str(trainer.file)]
    return [*program, *trainer.args]
