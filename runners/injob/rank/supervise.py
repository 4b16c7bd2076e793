"""One small parent per task: it labels the trainer's output, relays signals, and reports the end.

A trainer that is killed cannot say so; its parent can, and names `rank@host`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

from .. import failure_kinds as kinds
from ..processes import end_tree, end_with, waited_code
from . import (
    EXIT_STOPPED,
    FRAMEWORKS,
    HOROVOD,
    commands,
    failure,
    gate,
    network,
    rank_environment,
    signals,
)
from .failure import Problem, RendezvousError, problem_of
from .gate import EXIT_WORLD_SIZE, GateSettings
from .referee import Referee
from .reports import Inbox
from .task import Task
from .trainer import run
from .usage.sampler import Use

if TYPE_CHECKING:
    from .rendezvous.session import RendezvousSession
    from .start import ShimOptions

EXIT_FAILED = 1
IN_INIT = Problem(kinds.IN_INIT, "it exited in hvd.init()")
SECONDS_TO_A_WORLD = 120.0  # of imports and reading; after that a rank without a world is told of
# A thread of C++, such as one of torch's Gloo, that Python 3.13 and older ends on its way out
# (github.com/python/cpython/issues/87135): DDP scripts end so now and then, all their work done.
ABORTED = "terminate called without an active exception"
ENDED = Problem(kinds.ENDED_WITH_OTHERS, "ended because another rank had failed")


def supervise(task: Task, options: ShimOptions) -> int:
    """Run the trainer in a child, where this returns its exit code; end this process with it.

    It is 128 + N when signal N ended the trainer, and 0 for one that stopped early, its checkpoint
    saved.
    """
    shim = os.getpid()
    code = _supervised(task, options)
    if os.getpid() == shim:
        sys.stdout.flush()
        sys.stderr.flush()
        # Python's own way out would end the rendezvous' threads with pthread_exit, if they wake up
        # in it, and that aborts the process where there is no libgcc: in small images.
        os._exit(code)
    return code


def _supervised(task: Task, options: ShimOptions) -> int:
    signals.hold()
    run_dir = options.run_dir
    try:
        session = _open_session(task, options)
    except (RendezvousError, OSError) as error:
        failure.record(task, EXIT_FAILED, problem_of(error), run_dir)
        return EXIT_FAILED
    pipes = [os.pipe() for _ in range(1 + options.errors)]
    inbox, shim = Inbox(), os.getpid()
    terms = _terms(task, options, inbox, session)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        # A trainer without its shim would compute on, unseen, and keep its node's files and memory.
        end_with(shim)
        _become_child(pipes, session, options)
        return run(task, options, session, terms)
    for _, child_output in pipes:
        os.close(child_output)
    relay = signals.Relay(
        child, lambda: failure.of_others(task, run_dir), _trainer(task, options, child)
    )
    watch, worlds = signals.Watch(child, run_dir), Worlds(terms, inbox)
    held = session.held if session and options.uses_held_port(task) else None
    port = network.PortWatch(child, held, inbox)
    referee = Referee(terms, inbox, session, lambda: end_tree(child))
    if session is not None:
        session.serve()
    outputs = [output for output, _ in pipes]
    use = Use(terms, child, referee.tell_use)
    looks = [watch.look, worlds.look, port.look, referee.look, use.look]
    tail = _Labeller(task.name, outputs).pump(_child_ended(), inbox, port, looks)
    relay.stop()
    code = _exit_code(use.waited_for(), relay)
    inbox.read()
    referee.end = lambda: None  # it has ended by itself
    if referee.code:
        return referee.code
    if watch.ended:
        return code  # how the job ended is on record, and not by this
    if taken := port.problem_of(code):
        failure.record(task, EXIT_WORLD_SIZE, taken, run_dir)
        return EXIT_WORLD_SIZE
    if _stopped_early(options, code, relay, inbox):
        failure.forget(task, run_dir)
        failure.record_stop(task, run_dir)
        return 0
    code, problem = _judged(code, relay, tail, worlds, session)
    if code == 0:
        if session is not None:
            session.see_off()
        referee.last()
    if referee.code:
        return referee.code
    if code != 0 and not failure.recorded(task, run_dir):
        failure.record(task, code, problem, run_dir)
    return code


def _trainer(task: Task, options: ShimOptions, child: int) -> Callable[[], int]:
    """Return what finds the process that answers signals: not a profiler."""
    if commands.is_profiled(options, task.rank):
        return lambda: commands.pid_of_trainer(child, options.command)
    return lambda: child


def _stopped_early(options: ShimOptions, code: int, relay: signals.Relay, inbox: Inbox) -> bool:
    """Whether the trainer saved and stopped, or was ended before there was anything to save."""
    in_training = bool(inbox.formed) and not inbox.waits_in(HOROVOD)
    return code == EXIT_STOPPED or (
        not relay.ended and failure.before_training(options.command, in_training, code, relay.seen)
    )


def _judged(
    code: int,
    relay: signals.Relay,
    tail: list[str],
    worlds: Worlds,
    session: RendezvousSession | None,
) -> tuple[int, Problem]:
    """Return the exit code of the rank, and how it failed if it did."""
    inbox, terms = worlds.inbox, worlds.terms
    if _ended_in_init(inbox, code):
        problem = (session.store.problem if session else None) or IN_INIT
        known = problem.text if problem is not IN_INIT else ""
        print(gate.no_world(terms, known), flush=True)
        return EXIT_WORLD_SIZE, problem
    if inbox.wrong and code and not relay.ended:
        code = EXIT_WORLD_SIZE  # of a process within, for which its launcher has another
    if inbox.ended and code == 128 + signal.SIGABRT and ABORTED in tail:
        print(f"runner: rank {terms.task.name}: Python aborted after the trainer's end", flush=True)
        code = 0
    if code == 0 and worlds.missing:
        return EXIT_WORLD_SIZE, worlds.never_formed()
    return code, ENDED if relay.ended else failure.of_process(code, tail, relay.seen)


class Worlds:
    """Whether the trainer has initialized a process group, as the job requires."""

    def __init__(self, terms: GateSettings, inbox: Inbox) -> None:
        self.terms, self.inbox = terms, inbox
        self.began, self.told = time.monotonic(), False

    @property
    def missing(self) -> bool:
        """Whether there should be one, and none is."""
        return self.terms.check and gate.started(self.terms) > 1 and not self.inbox.formed

    def look(self) -> None:
        """Say so, once, where a world is late; on one rank of each node."""
        if self.told or time.monotonic() - self.began < SECONDS_TO_A_WORLD:
            return
        self.told = True
        if self.missing and self.terms.task.local_rank == 0:
            waits = [one for one in FRAMEWORKS if self.inbox.waits_in(one)]
            print(gate.late(self.terms.task, SECONDS_TO_A_WORLD, waits), flush=True)

    def never_formed(self) -> Problem:
        """Say that the trainer ended without one; return it as the rank's problem."""
        text, problem = gate.never_formed(self.terms, self.inbox.alone, self.inbox.imports)
        print(text, flush=True)
        return problem


def _terms(
    task: Task, options: ShimOptions, inbox: Inbox, session: RendezvousSession | None
) -> GateSettings:
    return GateSettings(
        task=task,
        controller=options.controller,
        run_dir=options.run_dir,
        inbox=(inbox.name, inbox.token),
        store=(session.store.port, session.store.prefix) if session else (0, ""),
        meets=options.ours,
        check=options.check,
        workers=options.workers,
        gpus=options.gpus,
    )


def _open_session(task: Task, options: ShimOptions) -> RendezvousSession | None:
    """Open the rendezvous where there is anybody to meet, or Horovod's Gloo asks for it."""
    if not options.meets_others(task):
        return None
    rank_environment.allow_files(task.size)
    # Here, because a job of one rank need not wait for its import.
    from .rendezvous.session import RendezvousSession

    interfaces = () if options.controller == "mpi" else options.interfaces
    return RendezvousSession(
        task, options.run_dir, rank_environment.meeting_seconds(task.size), interfaces
    )


def _ended_in_init(inbox: Inbox, code: int) -> bool:
    """Whether hvd.init() never returned, for another reason than somebody's signal."""
    ended = (*signals.RELAYED, signal.SIGKILL)
    other = (0, EXIT_WORLD_SIZE, *(128 + number for number in ended))
    return inbox.waits_in(HOROVOD) and code not in other


def _become_child(
    pipes: list[tuple[int, int]], session: RendezvousSession | None, options: ShimOptions
) -> None:
    """Write into the pipe, or the two, take signals, and leave the rendezvous to the parent."""
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


def _child_ended() -> int:
    """Return a descriptor that becomes readable when the child has ended.

    The end of output alone is not it: a forgotten grandchild may keep the pipe open.
    """
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    return ended


class _Labeller:
    """Copies whole lines to stdout as `rank@host | line` and keeps the last ones.

    Of two outputs the second one's lines go to stderr too.
    """

    def __init__(self, name: str, outputs: Sequence[int]) -> None:
        self.prefix = f"{name} | ".encode()
        self.rest = dict.fromkeys(outputs, b"")
        self.streams = {output: (1, 2)[: place + 1] for place, output in enumerate(outputs)}
        self.tail: list[str] = []

    def pump(
        self, ended: int, inbox: Inbox, port: network.PortWatch, looks: Sequence[Callable[[], None]]
    ) -> list[str]:
        """Copy until the child has ended and the pipes are empty; return the last lines.

        `looks` are called now and then.
        """
        there = list(self.rest)
        while there:
            often = port.needed
            seconds = (network if often else signals).SECONDS_BETWEEN_LOOKS
            ready, _, _ = select.select([*there, ended, inbox.sock.fileno()], [], [], seconds)
            inbox.read()
            for look in looks:
                look()
            chunks = {output: os.read(output, 65536) for output in there if output in ready}
            for output, chunk in chunks.items():
                self.write(output, chunk)
            there = [output for output in there if chunks.get(output) != b""]
            if not any(chunks.values()) and ended in ready and self._has_ended(ended):
                break
        for output, rest in self.rest.items():
            if rest:
                self.write(output, b"\n")
        return self.tail

    def _has_ended(self, ended: int) -> bool:
        """Tell the child's end from the wake-up of a relayed signal."""
        return signal.SIGCHLD in os.read(ended, 4096)

    def write(self, output: int, chunk: bytes) -> None:
        """Write the complete lines of what has come so far, in one call so that they stay whole."""
        *lines, self.rest[output] = (self.rest[output] + chunk).split(b"\n")
        if lines:
            for stream in self.streams[output]:
                _write_all(stream, b"".join(self.prefix + line + b"\n" for line in lines))
            self.tail = (self.tail + [line.decode("utf-8", "replace") for line in lines])[-30:]


def _write_all(stream: int, data: bytes) -> None:
    while data:
        data = data[os.write(stream, data) :]


def _exit_code(status: int, relay: signals.Relay) -> int:
    """Return the exit code; that of SIGTERM, as it came, when the trainer could not answer it."""
    if relay.ended:
        return 128 + signal.SIGTERM
    return waited_code(status)
