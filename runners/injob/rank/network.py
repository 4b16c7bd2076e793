"""Finds the addresses, interfaces and ports that ranks use, and leads Gloo there.

A port is held for a server of the trainer: it is bound, and nothing listens on it. It has
SO_REUSEADDR, which PyTorch's store and gRPC set too, so their server may bind it as well
(socket(7)), and the kernel gives it to no other process by itself. Another user's socket may bind
it too, and the first that listens gets it. Once the trainer's server listens, no other can. Until
then the shim checks who listens.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import MutableMapping, Sequence

from ...contract.failure_kinds import FailureKind
from ...contract.interfaces import LOOPBACK, InterfaceAddress, addresses_of, resolve, source_towards
from ..problems import Problem
from .reports import Inbox
from .startup import RAS_ADDRESS

CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000  # linux/sched.h
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
TRIES = 16
SECONDS_BETWEEN_LOOKS = 1.0


def listening(
    addresses: Sequence[InterfaceAddress],
    names: Sequence[str],
    others: Sequence[str],
    interfaces: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Return the addresses that others should use to reach this host, and its other ones.

    The first list has the addresses of its `names`, those towards `others` (names of hosts), and
    those of the `interfaces`. There is a second list because Debian's /etc/hosts leads a host's own
    name to 127.0.1.1, and a name may lead to an interface without a route.
    """
    usable = [entry for entry in addresses if entry.usable]
    expected = {address for name in names for address in resolve(name)}
    expected |= {source_towards(address) for name in others for address in resolve(name)}
    first = [
        entry.address for entry in usable if entry.address in expected or entry.name in interfaces
    ]
    rest = [entry.address for entry in usable if entry.address not in first]
    return (first, rest) if first else (rest, [])


def with_address(addresses: Sequence[InterfaceAddress], address: str) -> str:
    """Return the interface that has this address; empty when none has."""
    return next((entry.name for entry in addresses if entry.address == address), "")


def first_address(addresses: Sequence[InterfaceAddress], name: str) -> str:
    """Return the address that Gloo takes of an interface: the first that the kernel lists."""
    return next((entry.address for entry in addresses if entry.name == name), "")


def chosen(addresses: Sequence[InterfaceAddress], interfaces: Sequence[str], better: str) -> str:
    """Return the first of the interfaces that this host has, or `better` if it is among them.

    Empty when the host has none of them, or none with an address.
    """
    present = [name for name in interfaces if first_address(addresses, name)]
    return better if better in present else next(iter(present), "")


def name_leads_to(addresses: Sequence[InterfaceAddress], name: str) -> str:
    """Return the address of this host that Gloo takes for `name`, "" without one.

    Gloo takes the first that it can bind, loopback included (0.28.1, gloo/transport/tcp/device.cc).
    """
    mine = {entry.address for entry in addresses}
    named = addresses_of(name)
    return next((item for item in named if item in mine or item.startswith("127.")), "")


def misleading(
    addresses: Sequence[InterfaceAddress], interface: str, address: str, one_host: bool
) -> bool:
    """Whether the host's name leads to an `address` that Gloo should not use."""
    if one_host or not address:
        return not address
    return address.startswith("127.") or with_address(addresses, address) != interface


def surely_misleading(
    addresses: Sequence[InterfaceAddress], address: str, interfaces: Sequence[str], one_host: bool
) -> bool:
    """Whether the name's address is wrong for each of the interfaces."""
    if one_host:
        return not address
    names = usable(addresses) & set(interfaces) or usable(addresses)
    return all(misleading(addresses, name, address, one_host) for name in names)


def usable(addresses: Sequence[InterfaceAddress]) -> set[str]:
    """Return the names of the interfaces through which other hosts may be reached."""
    return {entry.name for entry in addresses if entry.usable}


def separate_host_name() -> bool:
    """Let this process, which must have one thread, change its host name; return whether it can.

    It cannot where the kernel does not let users have namespaces.

    Horovod's Gloo goes where the host's name leads. HOROVOD_GLOO_IFACE is not enough, because
    Horovod 0.28.1 forgets it for the contexts of its process sets (gloo_context.cc,
    InitializeForProcessSet: the interface of a new context is empty), and all data travels in
    those. Gloo then resolves what gethostname() says: 127.0.1.1 on Debian's hosts, or an interface
    without a route. In a UTS namespace of its own a process can be called by an address. Our images
    repair it (containers/horovod/src/repairs.toml); those of others do not.
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


def hold_port() -> socket.socket:
    """Hold a random port until this process ends."""
    for _ in range(TRIES):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", 0))
        if foreign_listener(sock) is None:
            break
    return sock


def hold_for_ras(env: MutableMapping[str, str]) -> socket.socket:
    """Hold a port for NCCL's RAS of this rank until it is closed; set its variable if unset.

    NCCL shares its default, 28028, among all processes of one user (SO_REUSEPORT), of any job, and
    no other user of the node gets it.
    """
    sock = socket.socket()
    # NCCL sets both (ras/client_support.cc); with SO_REUSEADDR here any user could bind it too.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with contextlib.suppress(OSError):  # no loopback, or no port left
        sock.bind((LOOPBACK, 0))
        env.setdefault(RAS_ADDRESS, f"{LOOPBACK}:{sock.getsockname()[1]}")
    return sock


def foreign_listener(held: socket.socket) -> Problem | None:
    """Return the problem of a held port on which another user listens."""
    port = int(held.getsockname()[1])
    if listeners(port) <= {os.geteuid()}:
        return None
    text = (
        f"another user of the node listens on port {port}, which runner held for this job "
        "(MASTER_PORT, TF_CONFIG): ranks that connect would reach a foreign process"
    )
    return Problem(FailureKind.PORT_TAKEN, text, {"port": port})


def listeners(port: int) -> set[int]:
    """Return the users who listen on this port, on any address.

    A user that this process's user namespace does not know is 65534.
    """
    uids = set()
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as lines:
            next(lines, None)
            for line in lines:
                fields = line.split()
                if fields[3] != LISTENING:
                    break  # those come first
                if int(fields[1].rpartition(":")[2], 16) == port:
                    uids.add(int(fields[7]))
    return uids


class PortWatch:
    """Ends the process `child` where another user listens on a held port; then `problem` says so.

    It watches until a world is formed: then the trainer's own server listens, or none will.
    """

    def __init__(self, child: int, held: socket.socket | None, inbox: Inbox) -> None:
        self.child, self.held, self.inbox = child, held, inbox
        self.problem: Problem | None = None

    @property
    def needed(self) -> bool:
        return self.held is not None and self.problem is None and not self.inbox.formed

    def poll(self) -> None:
        """Check the port; the child must not have been waited for."""
        if self.needed and self.look():
            os.kill(self.child, signal.SIGKILL)

    def look(self) -> Problem | None:
        """Return the problem, if there is one: the child's server may have found the port taken."""
        if self.held is not None and self.needed:
            self.problem = foreign_listener(self.held)
        return self.problem
