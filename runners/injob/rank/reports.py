"""Carries reports from a trainer's processes to their shim: the worlds that they form, and more.

Each report is a datagram to a socket without a file (unix(7), abstract): no process waits, and
nothing is left behind. All users of the host see its name, in /proc/net/unix. So each datagram
begins with a token, and the kernel drops those that do not (socket(7), SO_ATTACH_FILTER), on the
sender's time: they fill no queue, and the shim does not wake up. Unlike SO_PASSCRED that does not
depend on how user namespaces map the sender's uid.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...contract.enums import GATED, WordEnum

LONGEST = 1 << 18
TOKEN = 16  # bytes
SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module lacks it
INSTRUCTION = struct.Struct("=HBBI")  # linux/filter.h, sock_filter: code, jump if true, if not, k
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
WHOLE = 0xFFFFFFFF  # bytes to keep


class ReportState(WordEnum):
    """What a report says of a process, or of its framework."""

    CALLED = "called"
    FORMED = "formed"
    WRONG = "wrong"
    ALONE = "alone"  # a world of one that may be by the way: importing mpi4py forms it
    # The trainer itself, and no framework, has ended well, and Python is on its way out.
    ENDED = "ended"
    WEIGHTS = "weights"  # of an optimizer (weights.py)
    # A rank's shim tells rank 0's what its trainer used (usage).
    USE = "use"


@dataclass(frozen=True)
class RankReport:
    """One datagram. `fields` are those of the state: of FORMED the rank, the size and `by`.

    The inbox adds `entering` to FORMED: how many of the task's processes are still in that init.
    """

    state: ReportState
    framework: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        return json.dumps({"state": self.state, "framework": self.framework, **self.fields})


class Inbox:
    """The shim's end. `last` has each framework's last state, `formed` those with a full world.

    `entering` are the frameworks' inits that have not returned, each with its process: all ranks of
    a world have called before one of them reports it. `ended` is whether the trainer has come to
    its end, `imports` what it had imported by then. `unread` are the reports that the referee has
    not taken yet.
    """

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.name = f"runner-{os.urandom(16).hex()}"
        token = os.urandom(TOKEN)
        self.token = token.hex()
        _drop_others(self.sock, token)  # before it has a name to send to
        self.sock.bind(f"\0{self.name}")
        self.sock.setblocking(False)
        self.last: dict[str, ReportState] = {}
        self.formed: set[str] = set()
        self.entering: set[tuple[str, Any]] = set()
        self.ended = False
        self.imports: list[str] = []
        self.unread: list[RankReport] = []

    @property
    def wrong(self) -> bool:
        """Whether a process has ended for a world of another size."""
        return ReportState.WRONG in self.last.values()

    @property
    def alone(self) -> list[str]:
        """The frameworks that created a process group of one rank."""
        return sorted(name for name, state in self.last.items() if state == ReportState.ALONE)

    def waits_in(self, framework: str) -> bool:
        """Whether the trainer called this framework's init, and it has not returned."""
        return self.last.get(framework) == ReportState.CALLED

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                report = parse(self.sock.recv(LONGEST)[TOKEN:])
                if report is not None:
                    self._heard(report)

    def unread_reports(self) -> list[RankReport]:
        """Return the reports since the last call."""
        reports, self.unread = self.unread, []
        return reports

    def _heard(self, report: RankReport) -> None:
        state, caller = report.state, (report.framework, report.fields.get("process"))
        if state == ReportState.CALLED:
            self.entering.add(caller)
        else:
            self.entering.discard(caller)
        if state == ReportState.FORMED:
            self.formed.add(report.framework)
            entering = sum(framework == report.framework for framework, _ in self.entering)
            report = replace(report, fields={**report.fields, "entering": entering})
        if state in (ReportState.FORMED, ReportState.WEIGHTS):
            self.unread.append(report)
        if state == ReportState.ENDED:
            self.ended = True
            self.imports = [str(name) for name in report.fields.get("imports", ())]
        elif state != ReportState.WEIGHTS and self.last.get(report.framework) != ReportState.WRONG:
            self.last[report.framework] = state


def parse(data: bytes) -> RankReport | None:
    """Return the report in a datagram, None if there is none in it."""
    try:
        value = json.loads(data)
        state, framework = ReportState.of(value.pop("state")), value.pop("framework")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if state is None or framework not in ("", *GATED):
        return None
    return RankReport(state, framework, value)


def tell(name: str, token: str, framework: str, state: ReportState, **fields: Any) -> None:
    """Send a state to the shim's Inbox; a shim that has ended need not know."""
    data = bytes.fromhex(token) + RankReport(state, framework, fields).as_text().encode()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sock, contextlib.suppress(ConnectionRefusedError):
        sock.sendto(data, f"\0{name}")


def _drop_others(sock: socket.socket, token: bytes) -> None:
    """Let the kernel drop datagrams without the token, by a program of linux/filter.h."""
    words = struct.unpack(f">{TOKEN // 4}I", token)
    program = b""
    for place, word in enumerate(words):
        to_the_end = 2 * (len(words) - place) - 1
        program += INSTRUCTION.pack(LOAD_WORD, 0, 0, 4 * place)
        program += INSTRUCTION.pack(JUMP_IF_EQUAL, 0, to_the_end, word)
    program += INSTRUCTION.pack(RETURN, 0, 0, WHOLE) + INSTRUCTION.pack(RETURN, 0, 0, 0)
    memory = array("B", program)  # whose address can be had without ctypes, which some images lack
    address, length = memory.buffer_info()
    option = struct.pack("HP", length // INSTRUCTION.size, address)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, option)
