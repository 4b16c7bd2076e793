"""Which interfaces this process talks over: its own TCP connections, as the kernel lists them.

Gloo says nothing about the network it uses, but this shows it. Format: proc(5), /proc/net/tcp.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Iterable

from .interfaces import Interface, text_of

ESTABLISHED = "01"


def own(interfaces: Iterable[Interface]) -> dict[str, int]:
    """Return the number of this process's connections to other addresses, by interface."""
    names = {address: item.name for item in interfaces for address in item.addresses}
    inodes = socket_inodes()
    rows = parse(text_of("/proc/self/net/tcp")) + parse(text_of("/proc/self/net/tcp6"))
    mine = [(local, remote) for local, remote, inode in rows if inode in inodes]
    return dict(Counter(names.get(local, local) for local, remote in mine if local != remote))


def parse(text: str) -> list[tuple[str, str, str]]:
    """Return local address, remote address and inode of each established connection."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == ESTABLISHED:
            found.append((address(words[1]), address(words[2]), words[9]))
    return found


def address(text: str) -> str:
    """Return the address in `0B004D0A:1F90`: words of 32 bits as they lie in memory."""
    digits = text.partition(":")[0]
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    shown = socket.inet_ntop(socket.AF_INET6, raw)
    return shown[len("::ffff:") :] if shown.startswith("::ffff:") else shown


def socket_inodes() -> set[str]:
    """Return the inodes of the sockets that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed since the folder was listed
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found
