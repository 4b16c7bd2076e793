"""The shim's start: one task of a launcher's, or all of them (`--tasks`)."""

from __future__ import annotations

import os
import sys

from . import cpu, failure, gpu, limits, local_ranks, task
from .options import Options, parse
from .problem import Problem
from .supervise import supervise

EXIT_USAGE = 2
EXIT_REFUSED = 89  # the node's CPU or driver does not fit the image


def main(argv: list[str]) -> int:
    """Run the trainer as the task that the environment describes; return its exit code."""
    options = parse(argv)
    if not options.core_files:
        limits.no_core_files()
    if options.gpus:
        gpu.give_horovod_its_name(options.run_dir)
    if options.tasks and options.controller == "mpi":
        local_ranks.become_mpirun(options.tasks, argv)
    if options.tasks:
        options.launcher = "local"
        return local_ranks.spawn(options.tasks, lambda: _one(options))
    return _one(options)


def _one(options: Options) -> int:
    try:
        me = task.read(options.launcher, os.environ)
    except task.TaskError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_USAGE
    if problem := _misfit(options, me.host):
        # On one rank of each node; all record it.
        if failure.speaks_for_node(me, options.run_dir):
            print("\n  ".join([f"runner: {problem.text}", *problem.fields["evidence"]]), flush=True)
        failure.record(me, EXIT_REFUSED, problem, options.run_dir)
        return EXIT_REFUSED
    return supervise(me, options)


def _misfit(options: Options, host: str) -> Problem | None:
    """Return why this node cannot run what is in the image."""
    problem = cpu.problem(options.cpu_level, host)
    return problem or (gpu.problem(options.driver, host) if options.gpus else None)
