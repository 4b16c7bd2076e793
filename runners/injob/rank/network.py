"""Which addresses of this host others can use, and which interface Gloo shall; a name for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from ..addresses import Address, resolve, source_towards

CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000  # linux/sched.h


def listening(
    own: Sequence[Address], names: Sequence[str], others: Sequence[str], wanted: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the addresses that others should use to reach this host, and its other ones.

    Those that its `names` lead to, those towards `others` (names of hosts), those of the `wanted`
    interfaces. Debian's /etc/hosts leads a host's own name to 127.0.1.1, and a name may lead to an
    interface without a route: hence the second list, and hence more than one question.
    """
    usable = [one for one in own if one.usable]
    expected = {address for name in names for address in resolve(name)}
    expected |= {source_towards(address) for name in others for address in resolve(name)}
    first = [one.address for one in usable if one.address in expected or one.name in wanted]
    rest = [one.address for one in usable if one.address not in first]
    return (first, rest) if first else (rest, [])


def with_address(own: Sequence[Address], address: str) -> str:
    """Return the interface that has this address; empty when none has."""
    return next((one.name for one in own if one.address == address), "")


def first_address(own: Sequence[Address], name: str) -> str:
    """Return the address that Gloo takes of an interface: the first that the kernel lists."""
    return next((one.address for one in own if one.name == name), "")


def chosen(own: Sequence[Address], wanted: Sequence[str], better: str) -> str:
    """Return the wanted interface that this host has; `better` if it is among them, else the first.

    Empty when the host has none of them, or none with an address.
    """
    there = [name for name in wanted if first_address(own, name)]
    return better if better in there else next(iter(there), "")


def name_leads_to(own: Sequence[Address], name: str) -> str:
    """Return the address of this host that Gloo takes for `name`, loopback included; or none.

    It is the first that it can bind (0.28.1, gloo/transport/tcp/device.cc).
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ""
    mine = {one.address for one in own}
    addresses = [str(entry[4][0]) for entry in found]
    return next((one for one in addresses if one in mine or one.startswith("127.")), "")


def misleading(own: Sequence[Address], interface: str, address: str, one_host: bool) -> bool:
    """Whether `address`, to which the host's name leads, is not where Gloo shall talk."""
    if one_host or not address:
        return not address
    return address.startswith("127.") or with_address(own, address) != interface


def surely_misleading(
    own: Sequence[Address], address: str, wanted: Sequence[str], one_host: bool
) -> bool:
    """Whether the name's address is wrong whichever (wanted) interface turns out to be right."""
    if one_host:
        return not address
    names = usable(own) & set(wanted) or usable(own)
    return all(misleading(own, name, address, one_host) for name in names)


def usable(own: Sequence[Address]) -> set[str]:
    """Return the names of the interfaces through which other hosts may be reached."""
    return {one.name for one in own if one.usable}


def separate_host_name() -> bool:
    """Give this process, which must have one thread, a host name of its own, so far the same.

    False, and nothing has changed, where the kernel does not let users have namespaces.

    Because Horovod's Gloo goes where the host's name leads: HOROVOD_GLOO_IFACE is not enough, since
    Horovod 0.28.1 forgets it for the contexts of its process sets (gloo_context.cc,
    InitializeForProcessSet: the interface of a new context is empty), and all data travels in
    those. Gloo then resolves what gethostname() says: 127.0.1.1 on Debian's hosts, or an interface
    without a route. In a UTS namespace of its own a process can be called by an address.
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
        maps = {"uid_map": f"{uid} {uid} 1", "setgroups": "deny", "gid_map": f"{gid} {gid} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        socket.sethostname(socket.gethostname())
    except (ImportError, OSError):
        return False
    return True
