"""What a rank's environment needs in a container: folders that exist there, and a user name."""

from __future__ import annotations

import os
import pwd
from collections.abc import MutableMapping

NAMELESS = "RUNNER_NAMELESS"  # set where the container does not know the user, with a name


def settle(run_dir: str, env: MutableMapping[str, str]) -> list[str]:
    """Correct the environment before anything else runs; return what rank 0 has to say of it.

    A runtime, or an image's own environment, may lose OUTPUT_DIR.
    """
    env.setdefault("OUTPUT_DIR", run_dir)
    _name_user(env)
    folder = env.get("TMPDIR", "")
    if not folder or (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        return []
    # The node's, where it may be, is not in each container. Python would take /tmp, and mktemp,
    # Open MPI and compilers end with an error.
    del env["TMPDIR"]
    return [
        f"TMPDIR={folder} is no folder that the ranks can write to: they use /tmp "
        f"(--bind {folder} brings a node's folder into the container)"
    ]


def _name_user(env: MutableMapping[str, str]) -> None:
    """Set the variables that getpass reads where no passwd file or directory has this user."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        names = (env.get(name) for name in ("USER", "LOGNAME", "SLURM_JOB_USER"))
        name = next(filter(None, names), f"uid{os.getuid()}")
        env[NAMELESS] = name
        env.setdefault("USER", name)
        env.setdefault("LOGNAME", name)


def complete_pwd() -> None:
    """Let pwd.getpwuid answer for this user: PyTorch's compiler cache and others ask for it."""
    name, uid, lookup = os.environ.get(NAMELESS), os.getuid(), pwd.getpwuid
    if not name:
        return
    home = os.environ.get("HOME", "/")
    own = pwd.struct_passwd((name, "x", uid, os.getgid(), "", home, "/bin/sh"))
    pwd.getpwuid = lambda number: own if number == uid else lookup(number)
