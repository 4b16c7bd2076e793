"""The parent of one trainer: it labels the output, relays signals, and reports how it ended.

A trainer that is killed cannot say so; its parent can, and names `rank@host`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...contract.enums import Controller, ProcessGroup
from ...contract.exit_codes import EXIT_STOPPED, EXIT_WORLD_SIZE
from ...contract.failure_kinds import FailureKind
from ...contract.run_files import STOPPED
from ..problems import Problem, RendezvousError, of_process, problem_of
from ..processes import end_tree, end_with, waited_code
from ..records import write_json
from ..task import Task
from ..temporary import Temporary
from . import failures, network, rank_environment, signals, trainer_command, world_messages
from .gate_settings import GateSettings
from .output import OutputLabeller
from .referee import Referee
from .reports import Inbox
from .run_trainer import run
from .shim_options import ShimOptions
from .usage.sampler import UseWatch
from .world_watch import WorldWatch

if TYPE_CHECKING:
    from .rendezvous.session import RendezvousSession

EXIT_FAILED = 1
IN_INIT = Problem(FailureKind.IN_INIT, "it exited in hvd.init()")
# A thread of C++, such as one of torch's Gloo, that Python 3.13 and older ends on its way out
# (github.com/python/cpython/issues/87135): DDP scripts end so now and then, all their work done.
ABORTED = "terminate called without an active exception"
ENDED = Problem(FailureKind.ENDED_WITH_OTHERS, "ended because another rank had failed")


def supervise(task: Task, options: ShimOptions, folder: Temporary) -> int:
    """Run the trainer in a child, and end this process with its exit code; the child returns it.

    The code is 128 + N when signal N ended the trainer, and 0 when it saved its checkpoint and
    stopped early.
    """
    shim = os.getpid()
    with network.hold_for_ras(os.environ):
        code = _supervised(task, options)
    if os.getpid() == shim:
        folder.leave()
        sys.stdout.flush()
        sys.stderr.flush()
        # Python's own way out would end the rendezvous' threads with pthread_exit, if they wake up
        # in it, and that aborts the process where there is no libgcc: in small images.
        os._exit(code)
    return code


def _supervised(task: Task, options: ShimOptions) -> int:
    signals.hold()
    try:
        session = _open_session(task, options)
    except (RendezvousError, OSError) as error:
        failures.record(task, EXIT_FAILED, problem_of(error), options.run_dir)
        return EXIT_FAILED
    pipes = [os.pipe() for _ in range(1 + options.errors)]
    inbox, shim = Inbox(), os.getpid()
    settings = GateSettings(
        task=task,
        controller=options.controller,
        run_dir=options.run_dir,
        inbox=(inbox.name, inbox.token),
        store=(session.proxy.port, session.proxy.prefix) if session else (0, ""),
        meets=options.ours,
        check=options.check,
        workers=options.workers,
        gpus=options.gpus,
    )
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        # A trainer without its shim would compute on, unseen, and keep its node's files and memory.
        end_with(shim)
        _become_child(pipes, session, options)
        return run(task, options, session, settings)
    for _, child_output in pipes:
        os.close(child_output)
    return _Parent(options, settings, inbox, session, child).attend([output for output, _ in pipes])


class _Parent:
    """The trainer's parent: it passes on output, signals and reports, and judges its end."""

    def __init__(
        self,
        options: ShimOptions,
        settings: GateSettings,
        inbox: Inbox,
        session: RendezvousSession | None,
        child: int,
    ) -> None:
        self.options, self.settings, self.inbox, self.session = options, settings, inbox, session
        self.task, self.run_dir = task, run_dir = settings.task, settings.run_dir

        def trainer() -> int:  # a profiler may not pass signals on
            profiled = trainer_command.is_profiled(options, task.rank)
            return trainer_command.pid_of_trainer(child, options.command) if profiled else child

        self.relay = signals.Relay(child, lambda: failures.of_others(task, run_dir), trainer)
        self.job_end = signals.JobEndWatch(child, run_dir)
        self.world = WorldWatch(settings, inbox)
        held = session.trainer_port if session and options.uses_held_port(task) else None
        self.port = network.PortWatch(child, held, inbox)
        self.referee = Referee(settings, inbox, session, lambda: end_tree(child))
        self.woken, wakeup = _wakeup()

        def wake() -> None:
            with contextlib.suppress(BlockingIOError):  # it is awake
                os.write(wakeup, b"\0")

        if session is not None:
            session.wake = wake
            session.serve()
        self.use = UseWatch(settings, child, self.referee.tell_use)
        self.use.start()

    def attend(self, outputs: Sequence[int]) -> int:
        """Copy the outputs until the child has ended; return the exit code of the rank."""
        polls = [
            watch.poll for watch in (self.job_end, self.world, self.port, self.referee, self.use)
        ]
        labeller = OutputLabeller(self.task.name, outputs)
        tail = labeller.pump(self.woken, self.inbox, self.port, polls)
        self.relay.stop()
        code = waited_code(self.use.waited_for())
        if self.relay.ended:
            code = 128 + signal.SIGTERM  # that came, and the trainer could not answer it
        self.inbox.read()
        self.referee.end = lambda: None  # it has ended by itself
        if self.referee.code or self.job_end.ended:  # how it ended is on record
            return self.referee.code or code
        if code and (taken := self.port.look()):
            failures.record(self.task, EXIT_WORLD_SIZE, taken, self.run_dir)
            return EXIT_WORLD_SIZE
        if self._stopped_early(code):
            failures.forget(self.task, self.run_dir)
            value = {"form": 1, "rank": self.task.rank, "host": self.task.host, "time": time.time()}
            write_json(os.path.join(self.run_dir, STOPPED), value)  # ranks may do so at once
            return 0
        return self._recorded(*self._judged(code, tail))

    def _stopped_early(self, code: int) -> bool:
        """Whether the trainer saved and stopped, or was ended before there was anything to save.

        That is no failure. The task ends with 0, since launchers end all ranks when one of them
        ends otherwise, and rank 0 may still be writing. The job's script turns `stopped.json` into
        EXIT_STOPPED.
        """
        in_training = bool(self.inbox.formed) and not self.inbox.waits_in(ProcessGroup.HOROVOD)
        command, seen = self.options.command, self.relay.seen
        return code == EXIT_STOPPED or (
            not self.relay.ended and signals.ended_before_training(command, in_training, code, seen)
        )

    def _judged(self, code: int, tail: list[str]) -> tuple[int, Problem]:
        """Return the exit code of the rank, and how it failed if it did."""
        if self._ended_in_init(code):
            problem = (self.session.proxy.problem if self.session else None) or IN_INIT
            known = problem.text if problem is not IN_INIT else ""
            print(world_messages.no_world(self.settings, known), flush=True)
            return EXIT_WORLD_SIZE, problem
        if self.inbox.wrong and code and not self.relay.ended:
            code = EXIT_WORLD_SIZE  # of a process within, for which its launcher has another
        if self.inbox.ended and code == 128 + signal.SIGABRT and ABORTED in tail:
            name = self.task.name
            print(f"runner: rank {name}: Python aborted after the trainer's end", flush=True)
            code = 0
        if code == 0 and self.world.missing:
            return EXIT_WORLD_SIZE, self.world.never_formed()
        return code, ENDED if self.relay.ended else of_process(code, tail, self.relay.seen)

    def _ended_in_init(self, code: int) -> bool:
        """Whether hvd.init() never returned, and no signal was the reason."""
        ended = (*signals.RELAYED, signal.SIGKILL)
        explained = (0, EXIT_WORLD_SIZE, *(128 + number for number in ended))
        return self.inbox.waits_in(ProcessGroup.HOROVOD) and code not in explained

    def _recorded(self, code: int, problem: Problem) -> int:
        """Wait for the other ranks, or record the failure; return the exit code."""
        if code == 0:
            if self.session is not None:
                self.session.see_off()
            self.referee.last()
        if code and not self.referee.code and not failures.recorded(self.task, self.run_dir):
            failures.record(self.task, code, problem, self.run_dir)
        return self.referee.code or code


def _open_session(task: Task, options: ShimOptions) -> RendezvousSession | None:
    """Open the rendezvous where there are other ranks, or Horovod's Gloo needs it."""
    if not options.meets_others(task):
        return None
    rank_environment.allow_files(task.size)
    # Here, because a job of one rank need not wait for its import.
    from .rendezvous.session import RendezvousSession

    interfaces = () if options.controller is Controller.MPI else options.interfaces
    return RendezvousSession(
        task, options.run_dir, rank_environment.meeting_seconds(task.size), interfaces
    )


def _become_child(
    pipes: list[tuple[int, int]], session: RendezvousSession | None, options: ShimOptions
) -> None:
    """Write output into the pipes, take signals, and leave the rendezvous to the parent."""
    signals.let_in()
    if session is not None:
        session.leave(may_rename=options.ours)
    for stream, (_, child_output) in zip((1, 2), (pipes[0], pipes[-1])):
        os.dup2(child_output, stream)
    for pipe in pipes:
        for end in pipe:
            os.close(end)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)


def _wakeup() -> tuple[int, int]:
    """Return a pipe that becomes readable when the child has ended, and when one writes to it.

    The end of output alone is not the child's: a forgotten grandchild may keep the pipe open.
    """
    woken, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    return woken, wakeup
