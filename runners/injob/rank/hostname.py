"""A host name for this process alone, because Horovod's Gloo goes where the host's name leads.

HOROVOD_GLOO_IFACE is not enough: Horovod 0.28.1 forgets it for the contexts of its process sets
(gloo_context.cc, InitializeForProcessSet: the interface of a new context is empty), and all data
travels in those. Gloo then resolves what gethostname() says: 127.0.1.1 on Debian's hosts, or an
interface that leads nowhere. In a UTS namespace of its own a process can be called by an address.
"""

from __future__ import annotations

import os
import socket

CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000  # linux/sched.h


def separate() -> bool:
    """Give this process, which must have one thread, a host name of its own, so far the same.

    False, and nothing has changed, where the kernel does not let users have namespaces.
    """
    # Half of it would leave us without our user's name, so a child tries first.
    child = os.fork()
    if child == 0:
        os._exit(0 if _separated() else 1)
    return os.waitpid(child, 0)[1] == 0 and _separated()


def _separated() -> bool:
    try:
        import ctypes  # here, because some small images lack it

        uid, gid = os.geteuid(), os.getegid()
        if ctypes.CDLL(None).unshare(CLONE_NEWUTS | CLONE_NEWUSER):
            return False
        _write("uid_map", f"{uid} {uid} 1")
        _write("setgroups", "deny")
        _write("gid_map", f"{gid} {gid} 1")
        socket.sethostname(socket.gethostname())
    except (ImportError, OSError):
        return False
    return True


def _write(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(text)
