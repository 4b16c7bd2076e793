"""The child of the shim: it sets the frameworks' variables, then runs the trainer."""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from ...contract.enums import Controller, ProcessGroup
from ...contract.exit_codes import EXIT_NOT_FOUND, EXIT_STOPPED, EXIT_WORLD_SIZE
from ...contract.failure_kinds import FailureKind
from ...contract.rank_command import is_python
from .. import problems
from ..problems import RendezvousError
from ..task import Task
from . import failures, rank_environment, startup, trainer_command, visible_gpus, world_messages
from .gate_settings import VARIABLE, GateSettings
from .shim_options import ShimOptions
from .trainer_command import AGENTS, Node

if TYPE_CHECKING:
    from .rendezvous.session import MasterAddress, RendezvousSession

HERE = os.path.dirname(os.path.abspath(__file__))
CODE = os.path.dirname(os.path.dirname(HERE))  # RUN/code, where packages of the job lie
HOOK = os.path.join(HERE, "hook")
AGENT = "RUNNER_AGENT"  # the process whose children are ranks
SECONDS_FOR_CAUSE = 1.0  # in which the shim of a rank that was killed has recorded it


def run(
    task: Task, options: ShimOptions, session: RendezvousSession | None, settings: GateSettings
) -> int:
    """Run the trainer to its end; return an exit code for an exception, after its traceback.

    A failure is recorded here and now: while Python ends, Horovod tells the other ranks, which fail
    and make the launcher end this one before it has ended by itself.
    """
    try:
        command = _prepared(task, options, session)
    except RendezvousError as error:
        print(world_messages.no_world(settings, error.problem.text), flush=True)
        failures.record(task, EXIT_WORLD_SIZE, error.problem, settings.run_dir)
        return EXIT_WORLD_SIZE
    _hold_the_gate(settings)
    if options.agent:
        os.environ[AGENT] = str(os.getpid())  # which it keeps when it becomes the launcher
    if trainer_command.is_profiled(options, task.rank):
        try:
            command = trainer_command.with_profiler(options, task)
        except FileNotFoundError as error:
            print(f"error: {error}", flush=True)
            problem = problems.of_exit(EXIT_NOT_FOUND, f"error: {error}")
            failures.record(task, EXIT_NOT_FOUND, problem, options.run_dir)
            return EXIT_NOT_FOUND
        _find_module_as_ranks_do(options.command)
        _become(command)
    if not is_python(command):
        _become(command)
    return _run_python(command, settings)


def _hold_the_gate(settings: GateSettings) -> None:
    """Watch the imports of this process, and of each Python that it will start."""
    os.environ[VARIABLE] = settings.as_text()
    os.environ[startup.RANK] = str(settings.task.rank)
    os.environ["PYTHONPATH"] = ":".join(filter(None, [HOOK, os.environ.get("PYTHONPATH")]))
    from . import frameworks

    startup.begin(frameworks.wrap)


def _prepared(task: Task, options: ShimOptions, session: RendezvousSession | None) -> list[str]:
    """Set each framework's variables; return the command to run.

    Raises RendezvousError where the ranks cannot meet.
    """
    if options.gpus:
        os.environ.update(_instances(task, options))
    variables = rank_environment.compiled_code(options.run_dir)
    if options.controller is Controller.MPI:
        variables.update(HOROVOD_CONTROLLER="mpi", HOROVOD_CPU_OPERATIONS="mpi")
    elif options.ours:
        variables.update(rank_environment.horovod_over_gloo(task))
    for name, value in variables.items():
        # What the user exported wins, except for the place in the world, where a stale value from
        # another job would be a wrong answer.
        if name.endswith(("RANK", "SIZE", "HOSTNAME")):
            os.environ[name] = value
        else:
            os.environ.setdefault(name, value)
    if session is None:
        return options.command
    try:
        place = session.master_address()
    except RendezvousError as error:
        needed = options.ours or options.tf_config or options.agent
        if needed or error.problem.kind == FailureKind.PORT_TAKEN:
            raise
        print(f"runner: warning: MASTER_ADDR is not set: {error.problem.text}", flush=True)
        return options.command
    return _placed(task, options, session, place)


def _instances(task: Task, options: ShimOptions) -> dict[str, str]:
    if options.agent:
        return visible_gpus.for_workers(options.workers, os.environ)
    return visible_gpus.of_rank(task.local_rank, task.local_size, os.environ)


def _placed(
    task: Task, options: ShimOptions, session: RendezvousSession, place: MasterAddress
) -> list[str]:
    """Set the variables that lead to the other ranks; return the command to run."""
    if options.ours:
        os.environ.update(session.variables(place))
    interface = "" if task.one_host else place.interface
    if task.size > 1:
        os.environ.update(rank_environment.master(place.address, place.port, interface, os.environ))
    if options.agent:
        _find_module_as_ranks_do(options.command)
        node = Node(
            task.rank, task.size, options.workers, place.address, place.port,
            os.path.join(options.run_dir, "logs", options.agent),
        )  # fmt: skip
        return AGENTS[options.agent](node, options.command)
    if task.size > 1:
        os.environ.update(rank_environment.torch_place(task))
        for name, value in rank_environment.launcher_variables(task).items():
            os.environ.setdefault(name, value)
    if options.tf_config and task.size > 1 and "TF_CONFIG" not in os.environ:
        os.environ.update(rank_environment.tf_config(session.cluster(place), task.rank))
    return options.command


def _find_module_as_ranks_do(command: list[str]) -> None:
    """Let a Python that another program starts find `-m MODULE` as `_as_python_does`."""
    if command[0] == "-m":
        os.environ["PYTHONSAFEPATH"] = "1"  # from Python 3.11 on: not in the current folder
        os.environ["PYTHONPATH"] = ":".join(filter(None, [os.environ.get("PYTHONPATH"), CODE]))


def _become(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"error: cannot run {command[0]} in the image: {error.strerror}", flush=True)
        os._exit(EXIT_NOT_FOUND)


def _run_python(command: list[str], settings: GateSettings) -> int:
    from . import frameworks

    record = partial(failures.record, settings.task, run_dir=settings.run_dir)
    try:
        _as_python_does(command)
    except SystemExit as leaving:
        if _code(leaving) not in (0, EXIT_STOPPED):
            message = leaving.code if isinstance(leaving.code, str) else ""
            record(_code(leaving), problems.of_exit(_code(leaving), message))
        else:
            frameworks.gate().ended()
        raise
    except Exception as error:
        frame = _first_own_frame(error)
        lines = "".join(traceback.format_exception(type(error), error, frame)).splitlines()
        problem = problems.of_exception(1, error, lines)
        # Where hvd.init() failed the parent explains it.
        known = ProcessGroup.HOROVOD not in frameworks.gate().calling and record(1, problem)
        if not (
            known and problem.kind == FailureKind.PEER_LOST and _another_tells(settings.run_dir)
        ):
            print(*lines, sep="\n", file=sys.stderr, flush=True)
        return 1
    frameworks.gate().ended()
    return 0


def _another_tells(run_dir: str) -> bool:
    """Whether another rank has recorded the cause: this one's traceback would only distract."""
    deadline = time.monotonic() + SECONDS_FOR_CAUSE
    while not failures.cause_known(run_dir):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _code(leaving: SystemExit) -> int:
    """Return the exit code that Python makes of sys.exit(...): a text is printed, and 1."""
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0)  # of True 1
    return 1


def _as_python_does(command: list[str]) -> None:
    """Do what `python -m MODULE` or `python FILE` does, with an import hook in place."""
    if command[0] == "-m":
        sys.argv = command[1:]
        # Not the current folder, as Python would: a `recipes` there is not the one that was asked
        # for. A recipe that the image lacks lies beside this package.
        sys.path.insert(0, CODE)
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
        runpy.run_path(command[0], run_name="__main__")


def _first_own_frame(error: Exception) -> TracebackType | None:
    """Return the traceback from the trainer's first line on, without our frames and runpy's.

    A trainer that is no Python has no line that ran; the error itself names the place.
    """
    frame: TracebackType | None = error.__traceback__
    ours = (HERE, runpy.__file__, "<frozen runpy>")
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(ours):
        frame = frame.tb_next
    return error.__traceback__ if frame is None and not isinstance(error, SyntaxError) else frame
