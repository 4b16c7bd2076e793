"""Samples what the ranks of a job do now, from beside them, with the node's own Python (3.8).

`python3 RUN/code/injob sample RUN` prints JSON for each rank of this node, in pieces: rank, host,
and what the trainer's main thread did within SECONDS. That is its Python stacks, which startup.py
lets it write, its share of a CPU, how often it went to sleep by itself, the steps of its
optimizers, and the port of NCCL's RAS.

`python3 RUN/code/injob ras PORT...` prints what NCCL knows of all ranks. NCCL (2.24 and later) has
a thread in each process, RAS, that knows of all the others. It answers commands of one line each
with text, authenticates nobody, and closes after STATUS (protocol 2, src/ras/client_support.cc).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import time
from typing import TYPE_CHECKING

from ..contract.interfaces import LOOPBACK
from .rank import network
from .rank.startup import HEAD, NAME, NUMBER, SIGNAL, WORKER

SECONDS = 1.0
LOOKS = 3  # at the stack, within SECONDS
LARGEST = 2**18  # bytes of stacks, or of a source file
LONGEST = 200  # characters of a line
PIECE = 800  # bytes: Slurm mixes the nodes' lines that exceed 1,024
LINKED = re.compile(rf"/memfd:{NAME}-(\w+)-(\d+) ")
TITLE = "Stack (most recent call first):"  # faulthandler's (Python 3.8 to 3.14)
TRAINER = "/injob/rank/run_trainer.py"
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
HELLO, WELCOME = b"CLIENT PROTOCOL 2\n", b"SERVER PROTOCOL "
# Seconds that NCCL waits at each hop; it gives up 5 s later (RAS_COLLECTIVE_EXTRA_TIMEOUT_SEC).
STATUS = b"TIMEOUT 2\nVERBOSE STATUS\n"
SECONDS_OF_RAS = 8.0  # for all ports
SECONDS_TO_GREET = 1.0  # the kernel accepts for a process that is stopped, too
LARGEST_ANSWER = 2**16  # bytes
COMPLETE = "\nErrors\n"  # a title after what the answer for every job has

if TYPE_CHECKING:
    from typing import Any

    Stack = list[dict[str, Any]]


class Rank:
    """A process that answers as a rank; `memory` is the descriptor of what it writes into."""

    def __init__(self, pid: int, kind: str, rank: int, memory: int) -> None:
        self.pid, self.kind, self.rank, self.memory = pid, kind, rank, memory
        self.read = os.fstat(memory).st_size

    def ask(self) -> None:
        """Ask for a stack, unless the signal would end the process, or go into another file.

        A stopped process is not asked: it would answer all the questions when it goes on.
        """
        descriptor = int.from_bytes(os.pread(self.memory, NUMBER, NUMBER), sys.byteorder)
        writes = LINKED.match(_link(self.pid, descriptor))
        if writes and _answers(self.pid) and _status(self.pid, "State")[:1] not in "Tt":
            os.kill(self.pid, SIGNAL)

    def answer(self) -> Stack:
        """Return the frames that it has written since the last call, the innermost one first."""
        size = os.fstat(self.memory).st_size
        start = self.read if size >= self.read else HEAD  # where another sampler was through first
        text = os.pread(self.memory, min(size - start, LARGEST), start).decode("utf-8", "replace")
        self.read = size
        frames = map(FRAME.match, text.rpartition(TITLE)[2].splitlines())
        return _of_trainer(
            [{**frame.groupdict(), "line": int(frame["line"])} for frame in frames if frame]
        )

    def ras(self) -> int:
        """Return the port on which NCCL's RAS listens for it; 0 where none of this user's does."""
        port = int.from_bytes(os.pread(self.memory, NUMBER, 2 * NUMBER), sys.byteorder)
        return port if network.listeners(port) == {os.geteuid()} else 0

    def steps(self) -> int:
        """Return the steps of its optimizers; free the memory of the stacks that it has written."""
        os.ftruncate(self.memory, HEAD)
        return int.from_bytes(os.pread(self.memory, NUMBER, 0), sys.byteorder)


def main(argv: list[str]) -> None:
    ranks = _ranks(argv[0])
    before = {rank: _counts(rank) for rank in ranks}
    stacks: dict[Rank, list[Stack]] = {rank: [] for rank in ranks}
    for _ in range(LOOKS):
        for rank in ranks:
            rank.ask()
        time.sleep(SECONDS / LOOKS)
        for rank, answers in stacks.items():
            if frames := rank.answer():
                answers.append(frames)
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    for rank, answers in stacks.items():
        (ticks, sleeps), (ticks_before, sleeps_before) = _counts(rank), before[rank]
        busy = (ticks - ticks_before) / os.sysconf("SC_CLK_TCK") / SECONDS
        seen = {"rank": rank.rank, "host": host, "state": (_status(rank.pid, "State") or "gone")[0]}
        seen.update(
            busy=round(busy, 2), wakes=sleeps - sleeps_before, sleeps=sleeps, steps=rank.steps(),
            ras=rank.ras(),
        )  # fmt: skip
        source = _source(rank, answers[-1]) if answers else {}
        text = json.dumps({**seen, "stacks": answers, "source": source})
        for start in range(0, len(text), PIECE):
            print(f"sample {host}-{rank.pid} {text[start : start + PIECE]}")


def _of_trainer(stack: Stack) -> Stack:
    """Return a stack without the frames of the shim that runs the trainer, and runpy's."""
    ours = (number for number, frame in enumerate(stack) if frame["file"].endswith(TRAINER))
    stack = stack[: next(ours, len(stack))]
    while stack and stack[-1]["file"].endswith(("runpy.py", "<frozen runpy>")):
        stack.pop()
    return stack


def _source(rank: Rank, stack: Stack) -> dict[str, str]:
    """Return the text of a stack's lines, by `FILE:LINE`, from the files that the rank sees."""
    lines: dict[str, str] = {}
    for frame in stack:
        file, number = frame["file"], frame["line"]
        from_folder = "root" if os.path.isabs(file) else "cwd"
        text = _read(f"{rank.pid}/{from_folder}/{file}").splitlines()
        if number <= len(text):
            lines[f"{file}:{number}"] = text[number - 1].strip()[:LONGEST]
    return lines


def _ranks(run_dir: str) -> list[Rank]:
    """Return the processes of this run that are ranks: a launcher's workers, where there are any.

    Children of a rank share its memory, or answer in its name: the topmost one is the rank.
    """
    parents = {int(pid): _status(pid, "PPid") for pid in os.listdir("/proc") if pid.isdigit()}
    above: dict[int, list[int]] = {}
    for pid in parents:
        line = [pid]
        while (parent := int(parents.get(line[-1]) or 0)) and parent not in line:
            line.append(parent)
        above[pid] = line
    ours = {pid for pid in parents if run_dir in _read(f"{pid}/cmdline").split("\0")}
    ranks = [rank for pid in parents if ours & {*above[pid]} and (rank := _rank(pid))]
    ranks = [rank for rank in ranks if rank.kind == WORKER] or ranks
    names = {(rank.pid, rank.rank) for rank in ranks}
    return [rank for rank in ranks if not names & {(pid, rank.rank) for pid in above[rank.pid][1:]}]


def _rank(pid: int) -> Rank | None:
    """Return the rank that a process answers as; None for others, and those of other users.

    Another sampler has the memory open, too.
    """
    folder = f"/proc/{pid}/fd"
    if not _answers(pid):
        return None
    try:
        for name in os.listdir(folder):
            if match := LINKED.match(_link(pid, name)):
                memory = os.open(f"{folder}/{name}", os.O_RDWR)
                return Rank(pid, match[1], int(match[2]), memory)
    except OSError:  # it has ended, or is another user's
        return None
    return None


def _link(pid: int, descriptor: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:  # it has closed it, or ended
        return ""


def _answers(pid: int) -> bool:
    """Whether a process has a handler for SIGNAL, which would end it otherwise."""
    return bool(int(_status(pid, "SigCgt") or "0", 16) >> (SIGNAL - 1) & 1)


def _counts(rank: Rank) -> tuple[int, int]:
    """Return the main thread's clock ticks on a CPU, and how often it went to sleep by itself."""
    thread = f"{rank.pid}/task/{rank.pid}"
    fields = _read(f"{thread}/stat").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) if fields else 0  # utime and stime, proc(5)
    return ticks, int(_status(thread, "voluntary_ctxt_switches") or 0)


def _status(process: int | str, wanted: str) -> str:
    """Return a line of the status of a process, or of a thread."""
    line = re.search(rf"^{wanted}:(.*)", _read(f"{process}/status"), re.MULTILINE)
    return line[1].strip() if line else ""


def _read(name: str) -> str:
    """Return the beginning of a file below /proc; a source may be anything, such as a pipe."""
    try:
        descriptor = os.open(f"/proc/{name}", os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST)
    except OSError:  # it has ended, or is another user's
        return ""


def ras(argv: list[str]) -> None:
    """Print the first answer from the ranks' ports, nothing without one.

    A port on which another user listens is not asked.
    """
    deadline = time.monotonic() + SECONDS_OF_RAS
    for port in map(int, argv):
        if network.listeners(port) == {os.geteuid()} and time.monotonic() < deadline:
            answer = _answer(port, deadline).decode("ascii", "ignore")
            if COMPLETE in answer:
                print(re.sub(r"[^\n -~]", "", answer))
                return


def _answer(port: int, deadline: float) -> bytes:
    """Return the answer as far as it has come by the deadline, at most LARGEST_ANSWER bytes."""
    answer, address = b"", (LOOPBACK, port)
    with contextlib.suppress(OSError), socket.create_connection(address, SECONDS_TO_GREET) as rank:
        rank.sendall(HELLO)
        if not rank.recv(64).startswith(WELCOME):
            return b""
        rank.sendall(STATUS)
        while (left := deadline - time.monotonic()) > 0 and len(answer) < LARGEST_ANSWER:
            rank.settimeout(left)
            piece = rank.recv(LARGEST_ANSWER - len(answer))
            if not piece:
                break
            answer += piece
    return answer
