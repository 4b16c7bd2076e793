"""The job's folder on a node: made, held as long as the job lives, and removed with all in it.

A lock file beside the folder is held by the process that will remove it, and the kernel lets go of
it however that process ends. So a folder whose lock is free belongs to no job any more, and the
next job of the same user removes it.
"""

import contextlib
import fcntl
import glob
import os
import shutil
import signal
import time

from . import mount
from .failure import DATA, NotStaged, say

PREFIX = f"runner-{os.getuid()}-"
SECONDS_TO_APPEAR = 60.0
ATTEMPTS = 20
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def hold(folder: "str", *image: "str") -> None:
    """Make the folder, wait for the end of input, remove the folder. Raises NotStaged.

    With `image`, the words of mount.serve, that is mounted meanwhile.

    Signals are for the ranks, which may need the data to save and stop: the input ends after them,
    with the script, also of a job that is cancelled or preempted.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    sweep(os.path.dirname(folder))
    lock = _locked(folder + ".lock")
    if lock is None:
        raise NotStaged(f"{folder} is in use by another process")
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        _drop(folder + ".lock", lock)
        raise NotStaged(f"cannot make {folder}: {error.strerror}") from None
    if image:
        mount.serve(folder, *image)
    while os.read(0, 4096):
        pass
    _remove(folder)
    _drop(folder + ".lock", lock)


def sweep(root: "str") -> None:
    """Remove what ended jobs of this user have left in `root`."""
    for path in glob.glob(os.path.join(glob.escape(root), PREFIX + "*.lock")):
        if os.lstat(path).st_uid != os.getuid():
            continue
        lock = _locked(path)
        if lock is not None:
            folder = path[: -len(".lock")]
            _remove(folder)
            _drop(path, lock)
            say(DATA, f"removed {folder}, left by a job that was killed")


def wait_for(folder: "str") -> None:
    """Wait until `hold` has made the folder; raise NotStaged when it does not."""
    deadline = time.time() + SECONDS_TO_APPEAR
    while not os.path.isdir(folder):
        root = os.path.dirname(folder)
        if not os.access(root, os.W_OK | os.X_OK):
            raise NotStaged(f"{root} is no folder to write in")
        if time.time() > deadline:
            raise NotStaged(f"{folder} was not made")
        time.sleep(0.05)


def _locked(path: "str") -> "int | None":
    """Return the open lock file, None when somebody else holds it or it cannot be made.

    A lock counts only on the file that still has the name: another process may just have removed
    it.
    """
    try:
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return None
            if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
                return file
            os.close(file)
    except OSError as error:
        raise NotStaged(f"cannot write {path}: {error.strerror}") from None


def _drop(path: "str", lock: "int") -> None:
    os.unlink(path)
    os.close(lock)


def _opened(action: "object", path: "str", error: "object") -> None:
    """Let the next attempt in: images have folders that their owner may not write in."""
    for each in (os.path.dirname(path), path):
        if os.path.isdir(each) and not os.path.islink(each):
            with contextlib.suppress(OSError):
                os.chmod(each, 0o700)


def _remove(folder: "str") -> None:
    """Remove the tree; say so when something stays, such as what another process writes there."""
    mount.release(folder)
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, onerror=_opened)
        if not os.path.lexists(folder):
            return
        time.sleep(0.1)
    say(DATA, f"cannot remove {folder}")
