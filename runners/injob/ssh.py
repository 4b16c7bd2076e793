"""An ssh for containers: it reaches the other nodes of the job, by steps of the job.

`around` runs on the node beside a command and starts a step for each `ssh` that the command calls.
`ask` is that ssh: it sends its three streams and one line of JSON, and receives one line. Both
speak through a socket in a folder that only the user can enter; nothing listens on a network.
Python 3.6, of a node's own or of a container's.
"""

import array
import contextlib
import getopt
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from types import FrameType
from typing import Callable, Optional

from ..contract.parts import SSH_ASK
from . import HERE
from .processes import end, exit_code

SHELL = "command -v bash > /dev/null && exec bash; exec sh"
SECONDS_TO_END = 10.0
CLUSTER = ("SLURM_CONF", "SLURM_CLUSTERS")  # of all that Slurm sets these lead to it
# The daemons of Open MPI 4 and 5 would leave their step, and start each other, from nodes that
# have no such ssh; its path is not told, since they would look for it too. Hydra is MPICH's and
# Intel's, which Slurm tells to use srun.
OF_MPIRUN = {
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_orte_leave_session_attached": "1",
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "PRTE_MCA_prte_leave_session_attached": "1",
    "HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
}
# ssh(1) of OpenSSH 9: switches, of which pdsh gives -2, and those that take a value.
OPTIONS = "1246AaCfGgKkMNnqsTtVvXxYy" + "".join(f"{letter}:" for letter in "BbcDEeFIiJLlmOoPpQRSWw")
ENDED = "the job, or the shell, that it belongs to has ended"
STREAMS = 3  # standard input, output and error
SSH_FAILED = 255  # ssh(1): an error of ssh itself, not of the command


class StepStarter:
    """Starts a step on a node for each connection, and ends the steps that still run."""

    def __init__(self, nodes: "list[str]", enter: "str", step: "list[str]") -> None:
        self.nodes, self.enter, self.step = nodes, enter, step
        self.running: set[subprocess.Popen[bytes]] = set()
        self.starting = threading.Lock()  # held until a step that was started is among those
        self.over = False
        slurms = ("SLURM_", "SRUN_", "SBATCH_", "PMI_")
        self.env = {n: v for n, v in os.environ.items() if n in CLUSTER or not n.startswith(slurms)}
        self.job = os.environ.get("SLURM_JOB_ID", "")

    def listen(self, path: "str") -> None:
        """Take connections from now on, each in a thread of its own."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(64)
        _thread(self._take, listener)

    def end(self) -> None:
        """End the steps that run, and start no more: srun ends its step on SIGTERM."""
        self.over = True
        if self.starting.acquire(timeout=SECONDS_TO_END):  # srun may hang on its file system
            self.starting.release()
        end(list(self.running), SECONDS_TO_END)

    def _take(self, listener: "socket.socket") -> None:
        while True:
            _thread(self._attend, listener.accept()[0])

    def _attend(self, connection: "socket.socket") -> None:
        streams: list[int] = []
        # Who asked may go at any time.
        with connection, contextlib.suppress(EOFError, OSError):
            try:
                streams = _receive_streams(connection)
                answer = self._answer(_receive_facts(connection), streams, connection)
            finally:
                for stream in streams:
                    os.close(stream)
            _send_facts(connection, answer)

    def _answer(
        self, request: "dict[str, object]", streams: "list[int]", connection: "socket.socket"
    ) -> "dict[str, object]":
        node = self._node(str(request["host"]))
        if not node:
            names = ", ".join(self.nodes)
            why = "{} is not among the nodes of this job: {}".format(request["host"], names)
            return {"refused": why}
        argv = self.argv(node, str(request["command"]), bool(request["pty"]))
        return {"code": self._run(argv, streams, connection)}

    def argv(self, node: "str", command: "str", pty: "bool") -> "list[str]":
        """Return the step that runs a command, or a shell, in the container on a node."""
        where = ["--quiet", f"--jobid={self.job}", f"--nodelist={node}"]
        if pty:
            where.append("--pty")
        return [*self.step, *where, "bash", self.enter, "sh", "-c", command or SHELL]

    def _node(self, host: "str") -> "str":
        """Return the node of that name, with or without its domain; "" for another host."""
        own = socket.gethostname()
        name = (own if host == "localhost" else host).partition(".")[0].lower()
        return next((n for n in self.nodes if n.partition(".")[0].lower() == name), "")

    def _run(self, argv: "list[str]", streams: "list[int]", connection: "socket.socket") -> "int":
        stdin, stdout, stderr = streams
        with self.starting:
            if self.over:
                raise EOFError(ENDED)
            process = subprocess.Popen(
                argv,
                env=self.env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            self.running.add(process)
        _thread(_end_with, process, connection)
        code = process.wait()
        self.running.discard(process)
        return exit_code(code)


def _thread(work: "Callable[..., None]", *given: "object") -> None:
    threading.Thread(target=work, args=given, daemon=True).start()


def _end_with(process: "subprocess.Popen[bytes]", connection: "socket.socket") -> None:
    """End a step when the ssh that asked for it has gone; it sends nothing more."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    if process.poll() is None:
        process.terminate()


def around(argv: "list[str]") -> "int":
    """Run the command; return its exit code."""
    runtime, nodes, enter, *rest = argv
    split = rest.index("--")
    steps, command = StepStarter(nodes.split(","), enter, rest[:split]), rest[split + 1 :]
    # In /tmp: the paths of sockets are short, and few shared file systems have any.
    own = tempfile.mkdtemp("", "runner-", "/tmp")
    try:
        path = os.path.join(own, "socket")
        _write_ssh(own, path)
        steps.listen(path)
        return _run(command, _environment(own, runtime))
    finally:
        steps.end()
        shutil.rmtree(own, ignore_errors=True)


def _write_ssh(own_folder: "str", socket_path: "str") -> None:
    path = os.path.join(own_folder, "bin", "ssh")
    os.mkdir(os.path.dirname(path))
    words = ["python3", HERE, SSH_ASK, socket_path]
    with open(path, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(map(shlex.quote, words))))
    os.chmod(path, 0o700)


def _environment(own_folder: "str", runtime: "str") -> "dict[str, str]":
    """Return the environment in which the command, and its container, find the ssh."""
    environ = dict(os.environ)
    folder, program = os.path.join(own_folder, "bin"), runtime.upper()
    bind = f"{program}_BIND"
    environ[bind] = ",".join(filter(None, [environ.get(bind), own_folder]))
    for name in ("PATH", f"{program}ENV_PREPEND_PATH"):
        environ[name] = os.pathsep.join(filter(None, [folder, environ.get(name)]))
    return {**environ, **OF_MPIRUN}


def _run(command: "list[str]", env: "dict[str, str]") -> "int":
    """Run the command on our own terminal; pass on to it the signals that would end us."""
    started = []  # type: list[subprocess.Popen[bytes]]
    early = []  # type: list[int]  # a signal may come before there is a command to have it

    def pass_on(number: "int", frame: "Optional[FrameType]") -> None:
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    # The terminal sends its own signals to the command itself.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, pass_on)
    process = subprocess.Popen(command, env=env)
    started.append(process)
    for came in early:
        process.send_signal(came)
    return exit_code(process.wait())


def parse(argv: "list[str]") -> "tuple[str, str, set[str]]":
    """Return a node, the command for its shell, "" for a shell, and the options that were given.

    Like ssh, it takes options after the node's name too. Raises GetoptError, and IndexError without
    a node.
    """
    before, rest = getopt.getopt(argv, OPTIONS)
    after, words = getopt.getopt(rest[1:], OPTIONS)
    return rest[0].rpartition("@")[2], " ".join(words), {name for name, _ in before + after}


def ask(argv: "list[str]") -> "int":
    """Ask at the socket; return the command's exit code, or 255 as ssh does."""
    path = argv[0]
    try:
        host, command, options = parse(argv[1:])
    except (getopt.GetoptError, IndexError):
        return _say("usage: ssh [OPTION]... NODE [COMMAND...]")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
        _send_streams(connection, [_input(options), 1, 2])
        tty = not command or "-t" in options
        pty = tty and os.isatty(0) and os.isatty(1)
        _send_facts(connection, {"host": host, "command": command, "pty": pty})
        answer = _receive_facts(connection)
    except (OSError, EOFError):
        return _say(ENDED)
    except KeyboardInterrupt:
        return 130
    if "refused" in answer:
        return _say("{}{}".format(answer["refused"], _other_ssh(path)))
    return int(str(answer["code"]))


def _input(options: "set[str]") -> "int":
    """Return the input to pass on: no terminal that another process reads."""
    try:
        background = os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        background = True  # it is the terminal of another session
    if background or options & {"-n", "-f"}:
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


def _send_facts(connection: "socket.socket", facts: "dict[str, object]") -> None:
    """Send one line of JSON."""
    connection.sendall(json.dumps(facts).encode() + b"\n")


def _receive_facts(connection: "socket.socket") -> "dict[str, object]":
    """Return what was sent; raise EOFError when the other end has gone."""
    with connection.makefile("rb") as file:
        line = file.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the other end has gone")
    facts: dict[str, object] = json.loads(line.decode())
    return facts


def _send_streams(connection: "socket.socket", streams: "list[int]") -> None:
    """Pass on open files, by their numbers (unix(7), SCM_RIGHTS)."""
    rights = array.array("i", streams).tobytes()
    connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def _receive_streams(connection: "socket.socket") -> "list[int]":
    """Return the numbers that the files have here; raise EOFError when the other end has gone."""
    numbers = array.array("i")
    # Python before 3.9 has no socket.recv_fds.
    room = socket.CMSG_SPACE(STREAMS * numbers.itemsize)
    data_sent, rights, _, _ = connection.recvmsg(1, room)
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    if not data_sent or len(numbers) != STREAMS:
        raise EOFError("no streams came")
    return list(numbers)
