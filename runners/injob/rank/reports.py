"""What a trainer's processes tell the shim that started them: the worlds that they form.

One datagram each, to a socket without a file (unix(7), abstract), so that nobody waits and nothing
is left behind. All users of the host see its name, in /proc/net/unix. So each datagram begins with
a token, and the kernel drops those that do not (socket(7), SO_ATTACH_FILTER), on the sender's time:
they fill no queue, and the shim does not wake up. Unlike SO_PASSCRED that does not depend on how
user namespaces map the sender's uid.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from array import array

from . import FRAMEWORKS

# States. ALONE is a world of one that may be by the way: importing mpi4py forms it.
CALLED, FORMED, WRONG, ALONE = "called", "formed", "wrong", "alone"
# Of the trainer itself, in place of a framework: it has ended well, and Python is on its way out.
ENDED = "ended"
STATES = (CALLED, FORMED, WRONG, ALONE, ENDED)
LONGEST = 4096
TOKEN = 16  # bytes
SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module lacks it
INSTRUCTION = struct.Struct("=HBBI")  # linux/filter.h, sock_filter: code, jump if true, if not, k
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
WHOLE = 0xFFFFFFFF  # bytes to keep


class Inbox:
    """The shim's side. `last` is the last state by framework, `formed` are those that were right.

    `ended` is whether the trainer has come to its end.
    """

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.name = f"runner-{os.urandom(16).hex()}"
        token = os.urandom(TOKEN)
        self.token = token.hex()
        _drop_others(self.sock, token)  # before it has a name to send to
        self.sock.bind(f"\0{self.name}")
        self.sock.setblocking(False)
        self.last: dict[str, str] = {}
        self.formed: set[str] = set()
        self.ended = False

    @property
    def wrong(self) -> bool:
        """Whether a process has ended for a world of another size."""
        return WRONG in self.last.values()

    @property
    def alone(self) -> list[str]:
        """The frameworks that created a process group of one rank."""
        return sorted(name for name, state in self.last.items() if state == ALONE)

    def waits_in(self, framework: str) -> bool:
        """Whether the trainer called this framework's init, and it has not returned."""
        return self.last.get(framework) == CALLED

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._heard(*parse(self.sock.recv(LONGEST)[TOKEN:]))

    def _heard(self, framework: str, state: str) -> None:
        if state == ENDED:
            self.ended = True
        elif state and self.last.get(framework) != WRONG:
            self.last[framework] = state
        if state == FORMED:
            self.formed.add(framework)


def parse(data: bytes) -> tuple[str, str]:
    """Return framework and state of a report; both empty where it is none."""
    state, _, framework = data.decode("ascii", "replace").partition(" ")
    known = state in STATES and framework in ("", *FRAMEWORKS)
    return (framework, state) if known else ("", "")


def tell(name: str, token: str, framework: str, state: str) -> None:
    """Send a state to the shim's Inbox; one that has ended need not know."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sock, contextlib.suppress(ConnectionRefusedError):
        sock.sendto(bytes.fromhex(token) + f"{state} {framework}".encode(), f"\0{name}")


def _drop_others(sock: socket.socket, token: bytes) -> None:
    """Let the kernel drop what does not begin with the token: a program of linux/filter.h."""
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
