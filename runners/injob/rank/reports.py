"""What a trainer's processes tell the shim that started them: the worlds that they form.

One datagram each, to a socket without a file (unix(7), abstract), so that nobody waits and nothing
is left behind. The token keeps other users of the host from joining in.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket

# States. ALONE is a world of one that may be by the way: importing mpi4py forms it.
CALLED, FORMED, WRONG, ALONE = "called", "formed", "wrong", "alone"
# Of the trainer itself, in place of a framework: it has ended well, and Python is on its way out.
ENDED = "ended"
LONGEST = 4096


class Inbox:
    """The shim's side. `last` is the last state by framework, `formed` are those that were right.

    `ended` is whether the trainer has come to its end.
    """

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.name = f"runner-{os.urandom(16).hex()}"
        self.sock.bind(f"\0{self.name}")
        self.sock.setblocking(False)
        self.token = os.urandom(16).hex()
        self.last: dict[str, str] = {}
        self.formed: set[str] = set()
        self.ended = False

    @property
    def wrong(self) -> bool:
        """Whether a process has ended for a world of another size."""
        return WRONG in self.last.values()

    @property
    def alone(self) -> list[str]:
        """The frameworks that formed a world of one, by the way."""
        return sorted(name for name, state in self.last.items() if state == ALONE)

    def waits_in(self, framework: str) -> bool:
        """Whether the trainer called this framework's init, and it has not returned."""
        return self.last.get(framework) == CALLED

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._heard(self.sock.recv(LONGEST))

    def _heard(self, data: bytes) -> None:
        try:
            token, framework, state = json.loads(data)
        except ValueError:
            return  # a stranger
        if not hmac.compare_digest(str(token), self.token):
            return
        if state == ENDED:
            self.ended = True
        elif self.last.get(framework) != WRONG:
            self.last[framework] = state
        if state == FORMED:
            self.formed.add(framework)


def tell(name: str, token: str, framework: str, state: str) -> None:
    """Send a state to the shim's Inbox; one that has ended need not know."""
    message = json.dumps([token, framework, state]).encode()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sock, contextlib.suppress(ConnectionRefusedError):
        sock.sendto(message, f"\0{name}")
