"""One small parent per task: it labels the trainer's output, relays signals, and reports the end.

A trainer that is killed cannot say so; its parent can, and names `rank@host`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import TYPE_CHECKING

from .. import failure_kinds as kinds
from . import early_stop, failure, horovod_env, orphaned, signals
from .gate import EXIT_WORLD_SIZE, Progress, no_world
from .problem import Problem, RendezvousError, problem_of
from .task import Task
from .trainer import Work, run

if TYPE_CHECKING:
    from .rendezvous.session import Session

EXIT_FAILED = 1
IN_INIT = Problem(kinds.IN_INIT, "it ended within hvd.init()")
ENDED = Problem(kinds.ENDED_WITH_OTHERS, "ended, since another rank had failed")


def supervise(task: Task, work: Work, run_dir: str) -> int:
    """Run the trainer in a child, where this returns its exit code; end this process with it.

    It is 128 + N when signal N ended the trainer, and 0 for one that stopped early, its checkpoint
    saved.
    """
    shim = os.getpid()
    code = _supervised(task, work, run_dir)
    if os.getpid() == shim:
        sys.stdout.flush()
        sys.stderr.flush()
        # Python's own way out would end the rendezvous' threads with pthread_exit, if they wake up
        # in it, and that aborts the process where there is no libgcc: in small images.
        os._exit(code)
    return code


def _supervised(task: Task, work: Work, run_dir: str) -> int:
    signals.hold()
    try:
        session = _open_session(task, work, run_dir)
    except (RendezvousError, OSError) as error:
        failure.record(task, EXIT_FAILED, problem_of(error), run_dir)
        return EXIT_FAILED
    output, child_output = os.pipe()
    progress, shim = Progress(), os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signals.die_with(shim)
        _become_child((output, child_output), session)
        return run(task, work, session, progress, run_dir)
    os.close(child_output)
    relay = signals.Relay(child, lambda: failure.of_others(task, run_dir))
    watch = orphaned.Watch(child, run_dir)
    if session is not None:
        session.serve()
    tail = _Labeller(task.name).pump(output, _child_ended(), watch)
    relay.stop()
    code = _exit_code(os.waitpid(child, 0)[1], relay)
    if watch.ended:
        return code  # how the job ended is on record, and not by this
    in_training = progress.get() == Progress.RETURNED
    early = not relay.ended and early_stop.before_training(
        work.command, in_training, code, relay.seen
    )
    if code == early_stop.EXIT_STOPPED or early:
        failure.forget(task, run_dir)
        early_stop.record(task, run_dir)
        return 0
    if _ended_in_init(progress, code):
        problem = (session.problem if session else None) or IN_INIT
        known = problem.text if problem is not IN_INIT else ""
        print(no_world(task, work.controller, known), flush=True)
        code = EXIT_WORLD_SIZE
    else:
        problem = ENDED if relay.ended else failure.of_process(code, tail, relay.seen)
    if code != 0 and not failure.recorded(task, run_dir):
        failure.record(task, code, problem, run_dir)
    return code


def _open_session(task: Task, work: Work, run_dir: str) -> Session | None:
    """Open the rendezvous of a Gloo job, unless its launcher brings one, as horovodrun does."""
    if work.controller != "gloo" or work.placed:
        return None
    # Here, because jobs that meet through MPI need not wait for its import.
    from .rendezvous.session import Session

    return Session(task, run_dir, horovod_env.meeting_seconds(task.size), work.interfaces)


def _ended_in_init(progress: Progress, code: int) -> bool:
    """Whether hvd.init() never returned, for another reason than somebody's signal."""
    ended = (*signals.RELAYED, signal.SIGKILL)
    other = (0, EXIT_WORLD_SIZE, *(128 + number for number in ended))
    return progress.get() == Progress.CALLED and code not in other


def _become_child(pipe: tuple[int, int], session: Session | None) -> None:
    """Write into the pipe, take signals, and leave the rendezvous to the parent."""
    signals.let_in()
    if session is not None:
        session.leave()
    output, child_output = pipe
    os.close(output)
    for stream in (1, 2):
        os.dup2(child_output, stream)
    os.close(child_output)
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
    """Copies whole lines to stdout as `rank@host | line` and keeps the last ones."""

    def __init__(self, name: str) -> None:
        self.prefix = f"{name} | ".encode()
        self.rest = b""
        self.tail: list[str] = []

    def pump(self, output: int, ended: int, watch: orphaned.Watch) -> list[str]:
        """Copy until the child has ended and the pipe is empty; return the last lines."""
        while True:
            seconds = orphaned.SECONDS_BETWEEN_LOOKS
            ready, _, _ = select.select([output, ended], [], [], seconds)
            watch.look()
            if not ready:
                continue
            chunk = os.read(output, 65536) if output in ready else b""
            self.write(chunk)
            if not chunk and (output in ready or self._has_ended(ended)):
                break
        if self.rest:
            self.write(b"\n")
        return self.tail

    def _has_ended(self, ended: int) -> bool:
        """Tell the child's end from the wake-up of a relayed signal."""
        return signal.SIGCHLD in os.read(ended, 4096)

    def write(self, chunk: bytes) -> None:
        """Write the complete lines of what has come so far, in one call so that they stay whole."""
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        if lines:
            _write_all(b"".join(self.prefix + line + b"\n" for line in lines))
            self.tail = (self.tail + [line.decode("utf-8", "replace") for line in lines])[-30:]


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _exit_code(status: int, relay: signals.Relay) -> int:
    """Return the exit code; that of SIGTERM, as it came, when the trainer could not answer it."""
    if relay.ended:
        return 128 + signal.SIGTERM
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
