"""What the two ends send each other: one JSON text each way, and before it the three streams."""

import array
import json
import socket

STREAMS = 3  # standard input, output and error
SSH_FAILED = 255  # ssh(1): an error of ssh itself, not of the command


def send(there: "socket.socket", facts: "dict[str, object]") -> None:
    """Send one line of JSON."""
    there.sendall(json.dumps(facts).encode() + b"\n")


def receive(there: "socket.socket") -> "dict[str, object]":
    """Return what was sent; raise EOFError when the other end has gone."""
    with there.makefile("rb") as file:
        line = file.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the other end has gone")
    facts: dict[str, object] = json.loads(line.decode())
    return facts


def send_streams(there: "socket.socket", streams: "list[int]") -> None:
    """Pass on open files, by their numbers (unix(7), SCM_RIGHTS)."""
    rights = array.array("i", streams).tobytes()
    there.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_streams(there: "socket.socket") -> "list[int]":
    """Return the numbers that the files have here; raise EOFError when the other end has gone."""
    found = array.array("i")
    # Python before 3.9 has no socket.recv_fds.
    room = socket.CMSG_SPACE(STREAMS * found.itemsize)
    said, rights, _, _ = there.recvmsg(1, room)
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if not said or len(found) != STREAMS:
        raise EOFError("no streams came")
    return list(found)
