"""How processes of a job start and end. Python 3.6, for what runs on a node's own."""

import contextlib
import glob
import os
import signal

from ..contract.run_files import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

PR_SET_PDEATHSIG = 1  # prctl(2)
# The path is changed before anything is imported that the current folder could have too.
RUN_MODULE = """\
import sys
sys.path = [folder for folder in sys.path if folder]
import runpy
runpy.run_module("{}", run_name="__main__", alter_sys=True)
"""


def run_module(name: "str") -> "list[str]":
    """Return the options of Python for `-m NAME` without the current folder: others may write it.

    Python's own option for that, -P, came with 3.11.
    """
    return ["-c", RUN_MODULE.format(name)]


def end_with(parent: "int") -> None:
    """Let the kernel end this process when `parent` ends, also by SIGKILL."""
    with contextlib.suppress(ImportError, OSError):
        import ctypes  # here, because some small images and systems lack it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)  # it ended before we could ask for that


def tree(root: "int", proc: "str" = "/proc") -> "Iterator[int]":
    """Yield a process and its descendants, of all its threads.

    The caller may end each as soon as it gets it. A kernel without CONFIG_PROC_CHILDREN tells of
    the process alone.
    """
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        for children in glob.glob(f"{proc}/{pid}/task/*/children"):
            waiting += map(int, read(children).split())
        yield pid


def end_tree(root: "int") -> None:
    """Send SIGKILL to a process, which must not have been waited for, and to its descendants.

    A parent ends before its children, because it might start others in their place.
    """
    for pid in tree(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def exit_code(returncode: "int") -> "int":
    """Return a shell's exit code for subprocess's return code: 128 + N where signal N ended it."""
    return 128 - returncode if returncode < 0 else returncode


def waited_code(status: "int") -> "int":
    """Return a shell's exit code for a status of os.wait()."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end(running: "Sequence[subprocess.Popen[bytes]]", seconds: "float") -> None:
    """End processes with SIGTERM, and with SIGKILL those that still run after `seconds`."""
    import subprocess  # here, because no rank needs it

    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
