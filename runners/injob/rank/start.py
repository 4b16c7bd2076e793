"""Reads the shim's command line, and starts one task, or all of them here (`--tasks`)."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from types import FrameType
from typing import Callable

from ...contract.enums import Controller
from ...contract.exit_codes import EXIT_REFUSED
from ...contract.parts import RANK
from .. import HERE, task, temporary
from ..processes import waited_code
from ..task import READERS
from ..temporary import Temporary
from . import bytecode, failures, hardware, rank_environment
from .shim_options import ShimOptions
from .supervise import supervise
from .trainer_command import AGENTS

EXIT_USAGE = 2
SECONDS_TO_END = 5.0


def parse(argv: list[str]) -> ShimOptions:
    """Return the options, and the command behind `--`."""
    split = argv.index("--")
    parser = argparse.ArgumentParser(prog="rank", allow_abbrev=False)
    add = parser.add_argument
    add("--launcher", choices=sorted(READERS), default="srun")
    # argparse takes the last of repeated options, which is how `mpirun` sets these two.
    add("--tasks", type=int, help="start this many tasks here, with no launcher")
    add("--controller", type=Controller, choices=[*Controller], required=True)
    add("--no-gate", dest="check", action="store_false", help="skip the world-size check")
    add("--agent", choices=sorted(AGENTS), default="", help="starts the ranks")
    add("--workers", type=int, default=1, help="ranks that the agent starts here")
    add("--tf-config", action="store_true", help="set TF_CONFIG")
    # The one that the user exported, if there is no option.
    exported = os.environ.get("HOROVOD_GLOO_IFACE", "")
    add("--network-interfaces", dest="interfaces", type=_names, default=exported, help="Gloo's")
    add("--nv", dest="gpus", action="store_true", help="look for the NVIDIA driver first")
    add("--nv-alone", action="store_true", help="no GPU was requested")
    add("--driver", metavar="VERSION", help="the oldest for the image's CUDA")
    add("--cpu-level", default="", help="what the image's Horovod is compiled for")
    add("--errors", action="store_true", help="write stderr to stderr too")
    add("--core-files", action="store_true", help="keep the limit of core files as it is")
    add("--profile-with", metavar="COMMAND", default="", help="a profiler around the trainer")
    add("--profile-ranks", default="0", help="ranks that have it: 0,2-3 or all")
    add("--profile-tool", default="", help="its file where the image has none")
    add("--run-dir", required=True)
    options = parser.parse_args(argv[:split], ShimOptions(command=argv[split + 1 :]))
    # horovodrun with Gloo brings its own rendezvous and sets every rank's place.
    placed = options.launcher == "horovodrun" and "HOROVOD_RANK" in os.environ
    options.ours = options.controller is Controller.GLOO and not placed
    return options


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def main(argv: list[str]) -> int:
    """Run the trainer as the task that the environment describes; return its exit code."""
    options = parse(argv)
    rank_environment.settle(options.run_dir, os.environ)
    folder, notes = temporary.enter(os.environ, options.run_dir)
    bytecode.use_beside_source()
    try:
        return _started(options, argv, folder, notes)
    finally:
        folder.leave()


def _started(options: ShimOptions, argv: list[str], folder: Temporary, notes: list[str]) -> int:
    if not options.core_files:
        rank_environment.no_core_files()
    if options.gpus:
        hardware.give_horovod_its_name(options.run_dir)
    if options.tasks and options.controller is Controller.MPI:
        _tell(notes)
        return temporary.attend(mpirun(options.tasks, argv))
    if options.tasks:
        options.launcher = "local"
        return spawn(options.tasks, lambda: _run_task(options, Temporary(), notes))
    return _run_task(options, folder, notes)


def _tell(notes: list[str]) -> None:
    print(*(f"runner: {note}\n" for note in notes), sep="", end="", flush=True)


def _run_task(options: ShimOptions, folder: Temporary, notes: list[str]) -> int:
    try:
        me = task.read(options.launcher, os.environ)
    except task.TaskError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_USAGE
    if me.rank == 0:
        _tell(notes)
    problem = hardware.cpu_problem(options.cpu_level, me.host)
    if options.gpus and not problem:
        requested = not options.nv_alone
        problem = hardware.driver_problem(options.driver, me.host, requested=requested)
    if problem:
        # On one rank of each node; all record it.
        if failures.speaks(me, options.run_dir):
            print("\n  ".join([f"runner: {problem.text}", *problem.fields["evidence"]]), flush=True)
        failures.record(me, EXIT_REFUSED, problem, options.run_dir)
        return EXIT_REFUSED
    return supervise(me, options, folder)


def mpirun(count: int, argv: list[str]) -> list[str]:
    """Return the image's mpirun that starts `count` of this program, each as one task of its world.

    This Python by its full path, because Open MPI puts its own folder first on the PATH.
    """
    options = ["-np", str(count), "--oversubscribe", "--bind-to", "none"]
    shim = [sys.executable, HERE, RANK]
    split = argv.index("--")
    one_task = [*argv[:split], "--tasks", "0", "--launcher", "mpirun", *argv[split:]]
    return ["mpirun", *options, *shim, *one_task]


def spawn(count: int, one_task: Callable[[], int]) -> int:
    """Fork `count` tasks that run `one_task`; return the first failure's exit code, or 0.

    The first task that fails ends the others: SIGTERM, and SIGKILL after SECONDS_TO_END.
    """
    pids, job = set(), os.urandom(8).hex()  # another one each time that the job's script is run
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            # A group of its own, so that ending a task also ends its trainer.
            os.setpgid(0, 0)
            os.environ.update(
                RUNNER_TASK_RANK=str(rank), RUNNER_TASK_COUNT=str(count), RUNNER_TASK_JOB=job
            )
            return one_task()
        os.setpgid(pid, pid)
        pids.add(pid)
    return _wait(pids)


def _wait(pids: set[int]) -> int:
    def stop(number: int, frame: FrameType | None) -> None:
        _end(pids)
        sys.exit(128 + number)

    def pass_on(number: int, frame: FrameType | None) -> None:
        for pid in pids:
            os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, pass_on)
    while pids:
        pid, status = os.wait()
        pids.discard(pid)
        code = waited_code(status)
        if code:
            _end(pids)
            return code
    return 0


def _end(pids: set[int]) -> None:
    """End the tasks that still run: SIGTERM, and SIGKILL after SECONDS_TO_END."""
    for pid in pids:
        os.killpg(pid, signal.SIGTERM)  # not yet waited for, so the group still exists
    deadline = time.monotonic() + SECONDS_TO_END
    while pids and time.monotonic() < deadline:
        pids.discard(os.waitpid(-1, os.WNOHANG)[0])
        time.sleep(0.05)
    for pid in pids:
        os.killpg(pid, signal.SIGKILL)
