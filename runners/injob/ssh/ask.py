"""The ssh in the container: requests a step on another node, and ends with its exit code.

It sends its three streams and one line of JSON, and receives one line.
"""

import array
import json
import os
import shutil
import socket
import sys

# ssh(1) of OpenSSH 9: these take a value; the rest are switches.
WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"
ENDED = "the job, or the shell, that it belongs to has ended"
STREAMS = 3  # standard input, output and error
SSH_FAILED = 255  # ssh(1): an error of ssh itself, not of the command


class SshArguments:
    """A node, the command for its shell, "" for a shell, and the switches that were given."""

    def __init__(self, argv: "list[str]") -> None:
        """Read arguments as ssh does, which takes options after the node's name too."""
        self.switches = ""
        rest = self._after_options(argv)
        self.host = rest[0].rpartition("@")[2] if rest else ""
        self.command = " ".join(self._after_options(rest[1:]))

    def _after_options(self, argv: "list[str]") -> "list[str]":
        rest = list(argv)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            if word == "--":
                break
            for place, letter in enumerate(word[1:], 2):
                if letter in WITH_VALUE:
                    if len(word) == place and rest:
                        rest.pop(0)
                    break
                self.switches += letter
        return rest


def main(argv: "list[str]") -> "int":
    """Ask at the socket; return the command's exit code, or 255 as ssh does."""
    path, arguments = argv[0], SshArguments(argv[1:])
    if not arguments.host:
        return _say("usage: ssh [OPTION]... NODE [COMMAND...]")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
        send_streams(connection, [_input(arguments), 1, 2])
        tty = not arguments.command or "t" in arguments.switches
        pty = tty and os.isatty(0) and os.isatty(1)
        send_facts(connection, {"host": arguments.host, "command": arguments.command, "pty": pty})
        answer = receive_facts(connection)
    except (OSError, EOFError):
        return _say(ENDED)
    except KeyboardInterrupt:
        return 130
    if "refused" in answer:
        return _say("{}{}".format(answer["refused"], _other_ssh(path)))
    return int(str(answer["code"]))


def _input(arguments: "SshArguments") -> "int":
    """Return the input to pass on: nothing of a terminal that somebody else reads."""
    try:
        background = os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        background = True  # it is the terminal of another session
    if background or "n" in arguments.switches or "f" in arguments.switches:
        return os.open(os.devnull, os.O_RDONLY)
    return 0


def _other_ssh(socket_path: "str") -> "str":
    """Return a line that names the image's own ssh, "" where it has none."""
    own = os.path.join(os.path.dirname(socket_path), "bin")
    folders = [f for f in os.environ.get("PATH", "").split(os.pathsep) if f != own]
    program = shutil.which("ssh", path=os.pathsep.join(folders))
    return f"\n  to hosts outside of the job: {program}" if program else ""


def _say(text: "str") -> "int":
    print(f"ssh: {text}", file=sys.stderr, flush=True)
    return SSH_FAILED


def send_facts(connection: "socket.socket", facts: "dict[str, object]") -> None:
    """Send one line of JSON."""
    connection.sendall(json.dumps(facts).encode() + b"\n")


def receive_facts(connection: "socket.socket") -> "dict[str, object]":
    """Return what was sent; raise EOFError when the other end has gone."""
    with connection.makefile("rb") as file:
        line = file.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the other end has gone")
    facts: dict[str, object] = json.loads(line.decode())
    return facts


def send_streams(connection: "socket.socket", streams: "list[int]") -> None:
    """Pass on open files, by their numbers (unix(7), SCM_RIGHTS)."""
    rights = array.array("i", streams).tobytes()
    connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_streams(connection: "socket.socket") -> "list[int]":
    """Return the numbers that the files have here; raise EOFError when the other end has gone."""
    numbers = array.array("i")
    # Python before 3.9 has no socket.recv_fds.
    room = socket.CMSG_SPACE(STREAMS * numbers.itemsize)
    said, rights, _, _ = connection.recvmsg(1, room)
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    if not said or len(numbers) != STREAMS:
        raise EOFError("no streams came")
    return list(numbers)
