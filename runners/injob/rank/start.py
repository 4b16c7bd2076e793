"""The shim's start: one task of a launcher's, or all of them on this machine (`--tasks`)."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import Callable, NoReturn

from ..processes import waited_code
from . import failure, hardware, rank_environment, task
from .failure import Problem
from .options import ShimOptions, parse
from .supervise import supervise

EXIT_USAGE = 2
EXIT_REFUSED = 89  # the node's CPU or driver does not fit the image
SECONDS_TO_END = 5.0


def main(argv: list[str]) -> int:
    """Run the trainer as the task that the environment describes; return its exit code."""
    options = parse(argv)
    if not options.core_files:
        rank_environment.no_core_files()
    if options.gpus:
        hardware.give_horovod_its_name(options.run_dir)
    if options.tasks and options.controller == "mpi":
        become_mpirun(options.tasks, argv)
    if options.tasks:
        options.launcher = "local"
        return spawn(options.tasks, lambda: _one(options))
    return _one(options)


def _one(options: ShimOptions) -> int:
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


def _misfit(options: ShimOptions, host: str) -> Problem | None:
    """Return why this node cannot run what is in the image."""
    problem = hardware.cpu_problem(options.cpu_level, host)
    return problem or (hardware.driver_problem(options.driver, host) if options.gpus else None)


def become_mpirun(count: int, argv: list[str]) -> NoReturn:
    """Let the image's mpirun start `count` of this program, each as one task of its world.

    This Python by its full path, because Open MPI puts its own folder first on the PATH.
    """
    options = ["-np", str(count), "--oversubscribe", "--bind-to", "none"]
    shim = [sys.executable, os.path.dirname(os.path.abspath(__file__))]
    split = argv.index("--")
    one_task = [*argv[:split], "--tasks", "0", "--launcher", "mpirun", *argv[split:]]
    os.execvp("mpirun", ["mpirun", *options, *shim, *one_task])


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
    """End the tasks that still run, gently first."""
    _signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + SECONDS_TO_END
    while pids and time.monotonic() < deadline:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        pids.discard(pid)
        time.sleep(0.05)
    _signal(pids, signal.SIGKILL)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        os.killpg(pid, number)  # not yet waited for, so the group still exists
