"""Makes a job's own temporary folder on each of its nodes, as TMPDIR, with Python's bytecode in it.

All users share /tmp. Programs write there under names that others can guess, and Python runs the
bytecode in the `__pycache__` beside a source file, which any user may have made: TensorFlow's
AutoGraph writes its functions into TMPDIR and imports them.

All ranks of a node use one folder. Its name comes from a secret of the run, so that they need
not ask each other. Each holds a lock on it; the last one removes it. What a killed job leaves is
removed by the end of its script (`tidy`), or by the next job of the same user there.

A process may outlive the folder, and another user can then make one of that name. So the path of
the bytecode goes by the open folder of the process that holds it: /proc/PID/fd/N, which only this
user may follow, and below which nobody makes anything once the folder is gone.
Python 3.6, for what runs on a node's own.
"""

import contextlib
import fcntl
import glob
import hashlib
import hmac
import os
import re
import signal
import stat
import sys

from ..contract.exit_codes import EXIT_NOT_FOUND
from ..contract.parts import NO_DISPLAY
from ..contract.run_files import TEMPORARY_KEY, read
from . import HERE, own_folder
from .processes import end_with, waited_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence
    from types import FrameType

TMPDIR, BYTECODE = "TMPDIR", "PYTHONPYCACHEPREFIX"
SHARED, MEMORY = "/tmp", "/dev/shm"
# Sockets lie in it (unix(7): 107 bytes), under names of their programs' own.
LONGEST, RANDOM = 59, 12
NAME = re.compile(rf"runner-[0-9a-f]{{4}}\.[0-9a-f]{{{RANDOM}}}")
OF_START = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "PBS_JOBID")
HOOK = os.path.join(HERE, "rank", "hook")
RUN = os.path.dirname(os.path.dirname(HERE))
RELAYED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
BY_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # which sends them to the command too


class Temporary:
    """The folder of a job on this node, held by this process."""

    def __init__(self, path: "str" = "", opened: "int | None" = None) -> None:
        """Without a path it is a folder that another process holds, or none."""
        self.path, self.opened, self.holder = path, opened, os.getpid()

    def bytecode(self, name: "str") -> "str":
        """Return the path for it while this process holds the folder, "" where it holds none.

        `name` is secret: a number of a process, and of what it has open, can come again.
        """
        return f"/proc/{self.holder}/fd/{self.opened}/{name}" if self.path else ""

    def leave(self) -> None:
        """Release the folder, and remove it if no other process holds it; a child does nothing."""
        if self.opened is not None and self.holder == os.getpid():
            if own_folder.locks(self.opened, fcntl.LOCK_EX):
                own_folder.remove(self.path)
            os.close(self.opened)
            self.opened = None


def enter(env: "MutableMapping[str, str]", run_dir: "str") -> "tuple[Temporary, list[str]]":
    """Make or find the folder and set its variables; return it, and notes for the user.

    A TMPDIR in which only the user can write stays: the folder in it is for bytecode alone.
    """
    given = env.get(TMPDIR, "")
    if given and _is_ours(given) and _is_in(given, env.get(BYTECODE, "")):
        return Temporary(), []  # who started this process holds it
    if NAME.fullmatch(os.path.basename(given)):
        given = os.path.dirname(given)  # of another node, or of a job that has ended
    base, notes = _base(given)
    of_run = os.path.join(run_dir, "code")
    bases = dict.fromkeys([base, SHARED, of_run])  # most often, the first is the second
    host, digest = os.uname().nodename, _digest(run_dir, env)
    folder = _first_made(list(bases), f"{_of_host(host)}.{digest[:RANDOM]}")
    env[TMPDIR] = given if base == given and is_private(given) else folder.path or base
    if not is_private(env.get(BYTECODE, "")):
        env[BYTECODE] = folder.bytecode(digest[RANDOM:]) or os.path.join(of_run, "pycache")
    if not os.access(os.path.expanduser("~"), os.W_OK):
        # Keras would read its settings and datasets, some of them pickles, in /tmp/.keras.
        env.setdefault("KERAS_HOME", os.path.join(folder.path or of_run, "keras"))
    if hasattr(sys, "pycache_prefix"):  # for this process
        sys.pycache_prefix = env[BYTECODE]
    return folder, notes


def _base(given: "str") -> "tuple[str, list[str]]":
    """Return in which folder to make it, and why not in the given one."""
    if not given:
        return SHARED, []
    if not (os.path.isdir(given) and os.access(given, os.W_OK | os.X_OK)):
        # The node's, where it may be, is not in each container. Programs would take /tmp, and
        # mktemp, Open MPI and compilers end with an error.
        bring = f"--bind {given} brings a node's folder into the container"
        what = f"TMPDIR={given} is no folder that the ranks can write to: they use /tmp ({bring})"
        return SHARED, [what]
    if len(os.path.join(given, _of_host(""))) + RANDOM + 1 > LONGEST and not is_private(given):
        return SHARED, [f"TMPDIR={given} is too long for paths of sockets: the ranks use /tmp"]
    return given, []


def _digest(run_dir: "str", env: "MutableMapping[str, str]") -> "str":
    """Return the digest for names on this node and this start of a run; random without a secret.

    The part in the folder's name does not reveal the rest.
    """
    key = read(os.path.join(run_dir, TEMPORARY_KEY))
    start = ".".join([os.uname().nodename, *(env.get(name, "") for name in OF_START)])
    return hmac.new(key.encode() or os.urandom(16), start.encode(), hashlib.sha256).hexdigest()


def _of_host(host: "str") -> "str":
    """Return the first part of the name: of a shared folder each node sweeps its own part."""
    return "runner-" + hashlib.sha256(host.encode()).hexdigest()[:4]


def _first_made(bases: "Sequence[str]", name: "str") -> "Temporary":
    """Make it in the first folder where that works: a disk may be full, or have no locks."""
    for base in bases:
        sweep(base)
    for base in bases:
        with contextlib.suppress(OSError):
            return _made(os.path.join(base, name))
    return Temporary()


def _made(folder: "str") -> "Temporary":
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        opened = own_folder.locked(folder, fcntl.LOCK_SH)
        if opened is not None:
            return Temporary(folder, opened)


def sweep(base: "str") -> None:
    """Remove the folders that killed jobs of this user have left on this node.

    In /tmp these include what a process on another node made again after its job.
    """
    first = "" if base == SHARED else _of_host(os.uname().nodename)
    for folder in own_folder.left_in(base, lambda name: _is_left(name, first), any_mode=True):
        own_folder.remove(folder)


def _is_left(name: "str", first: "str") -> "bool":
    return bool(NAME.fullmatch(name)) and name.startswith(first)


def _is_ours(folder: "str") -> "bool":
    try:
        os.close(own_folder.open_own(folder))
    except OSError:
        return False
    return bool(NAME.fullmatch(os.path.basename(folder)))


def _is_in(folder: "str", path: "str") -> "bool":
    try:
        return os.path.samefile(os.path.dirname(path), folder)
    except OSError:
        return False


def is_private(folder: "str") -> "bool":
    """Whether only this user can write there, and nobody can put another folder in its place.

    A user namespace hides the owners of the folders above, but not their modes.
    """
    if not folder or not os.path.isdir(folder):
        return False
    path = os.path.realpath(folder)
    status = os.stat(path)
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        mode = os.stat(path).st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            return False
    return True


def tidy(argv: "list[str]") -> "int":
    """Remove the folders that killed ranks have left."""
    for base in {os.environ.get(TMPDIR) or SHARED, SHARED}:
        sweep(base)
    for path in unused_semaphores():
        with contextlib.suppress(OSError):
            os.unlink(path)
    return 0


def unused_semaphores() -> "Iterator[str]":
    """Yield the semaphores of this user's multiprocessing that no process has mapped.

    They are compared by inode: glibc makes a semaphore under another name (sem_open(3)).
    """
    ours = {}
    for path in glob.glob(os.path.join(MEMORY, "sem.mp-*")):
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if status.st_uid == os.getuid():
                ours[path] = str(status.st_ino)
    if not ours:
        return
    maps = (line.split() for file in glob.glob("/proc/[0-9]*/maps") for line in _lines(file))
    mapped = {fields[4] for fields in maps if len(fields) > 5 and "/sem." in fields[5]}
    yield from (path for path, inode in ours.items() if inode not in mapped)


def _lines(path: "str") -> "list[str]":
    return read(path).splitlines()


def around(argv: "list[str]") -> "int":
    """Run a command, such as a shell of the user's, with a folder of its own; return its exit code.

    Every Python in it finds the bytecode of the image beside the modules (rank/bytecode.py).
    """
    folder, notes = enter(os.environ, RUN)
    for note in notes:
        print(f"runner: {note}", file=sys.stderr)
    os.environ.setdefault(*NO_DISPLAY)
    os.environ["PYTHONPATH"] = ":".join(filter(None, [HOOK, os.environ.get("PYTHONPATH")]))
    try:
        return attend(argv)
    finally:
        folder.leave()


def attend(argv: "Sequence[str]") -> "int":
    """Run a command to its end, and pass signals on to it; return its exit code."""
    ours = os.getpid()
    with _blocked():
        child = os.fork()
        if child == 0:
            end_with(ours)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, RELAYED)
            _become(argv)

        def relay(number: "int", frame: "FrameType | None") -> None:
            os.kill(child, number)

        for number in RELAYED:
            signal.signal(number, relay)
        for number in BY_TERMINAL:
            signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    for number in RELAYED:
        signal.signal(number, signal.SIG_IGN)
    return waited_code(status)


@contextlib.contextmanager
def _blocked() -> "Iterator[None]":
    """Block signals until there is a command that takes them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, RELAYED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, RELAYED)


def _become(argv: "Sequence[str]") -> None:
    try:
        os.execvp(argv[0], [*argv])
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(EXIT_NOT_FOUND)
