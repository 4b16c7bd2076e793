"""The shim's command line: one task of a launcher's, or all of them (`--tasks`)."""

from __future__ import annotations

import argparse
import os
import sys

from . import failure, gpu, local_ranks, task, trainer
from .agents import AGENTS
from .problem import Problem
from .supervise import supervise

EXIT_USAGE = 2


def main(argv: list[str]) -> int:
    """Run the trainer as the task that the environment describes; return its exit code."""
    options = _parse(argv)
    if options.nv:
        gpu.give_horovod_its_name(options.run_dir)
    if options.tasks and options.controller == "mpi":
        local_ranks.become_mpirun(options.tasks, argv)
    if options.tasks:
        return local_ranks.spawn(options.tasks, options.run_dir, lambda: _one(options, "local"))
    return _one(options, options.launcher)


def _one(options: argparse.Namespace, launcher: str) -> int:
    try:
        me = task.read(launcher, os.environ)
    except task.TaskError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_USAGE
    if options.nv and (problem := gpu.problem(options.driver, me.host)):
        return _refuse(me, problem, options.run_dir)
    # horovodrun with Gloo brings its own rendezvous and sets every rank's place.
    placed = launcher == "horovodrun" and "HOROVOD_RANK" in os.environ
    work = trainer.Work(
        controller=options.controller,
        placed=placed,
        interfaces=_interfaces(options),
        command=options.command,
        check=not options.no_gate,
        tf_config=options.tf_config,
        agent=options.agent,
        workers=options.workers,
        gpus=options.nv,
        errors=options.errors,
    )
    return supervise(me, work, options.run_dir)


def _interfaces(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the interfaces to choose from: the option's, else the one that the user exported."""
    names = options.interface or os.environ.get("HOROVOD_GLOO_IFACE", "")
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _refuse(me: task.Task, problem: Problem, run_dir: str) -> int:
    """Explain on one rank of each node, record it on all; return the exit code."""
    if failure.speaks_for_node(me, run_dir):
        lines = [f"runner: {problem.text}", *problem.fields["evidence"]]
        print("\n  ".join(lines), flush=True)
    failure.record(me, gpu.EXIT_REFUSED, problem, run_dir)
    return gpu.EXIT_REFUSED


def _parse(argv: list[str]) -> argparse.Namespace:
    split = argv.index("--")
    parser = argparse.ArgumentParser(prog="rank", allow_abbrev=False)
    parser.add_argument("--launcher", choices=sorted(task.READERS), default="srun")
    # argparse takes the last of repeated options, which is how `become_mpirun` sets these two.
    parser.add_argument("--tasks", type=int, help="start this many tasks here, with no launcher")
    parser.add_argument("--controller", choices=["mpi", "gloo", "none"], required=True)
    parser.add_argument("--no-gate", action="store_true", help="ranks need not form one world")
    parser.add_argument("--agent", choices=sorted(AGENTS), default="", help="starts the ranks")
    parser.add_argument("--workers", type=int, default=1, help="ranks that the agent starts here")
    parser.add_argument("--tf-config", action="store_true", help="set TF_CONFIG")
    parser.add_argument("--interface", help="for Gloo, or several: NAME,NAME; found if absent")
    parser.add_argument("--nv", action="store_true", help="look for the NVIDIA driver first")
    parser.add_argument("--driver", metavar="VERSION", help="the oldest for the image's CUDA")
    parser.add_argument("--errors", action="store_true", help="write stderr to stderr too")
    parser.add_argument("--run-dir", required=True)
    options = parser.parse_args(argv[:split])
    options.command = argv[split + 1 :]
    return options
