"""One network namespace per node, joined by veth pairs to a bridge.

The bridge lives in a namespace of its own, `switch`, so the host gets no interface and no address,
and any number of clusters can exist side by side with the same addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from .shell import run

NETWORK = ipaddress.IPv4Network("10.77.0.0/16")
SWITCH = "switch"


def addresses(hosts: Sequence[str]) -> dict[str, str]:
    """Host name -> its address; the first host gets .1 of NETWORK."""
    return {name: str(NETWORK[index]) for index, name in enumerate(hosts, start=1)}


def hosts_file(hosts: Sequence[str]) -> str:
    """/etc/hosts of every node."""
    lines = [f"{address} {name}" for name, address in addresses(hosts).items()]
    return "\n".join(["127.0.0.1 localhost", *lines]) + "\n"


def create(folder: Path, hosts: Sequence[str]) -> None:
    """Make a connected namespace for each of *hosts*, mounted on a file in *folder*."""
    for name in (SWITCH, *hosts):
        path = folder / name
        path.touch()
        run(["unshare", f"--net={path}", "true"])
    _ip(folder, SWITCH, "link", "add", "br0", "type", "bridge")
    _ip(folder, SWITCH, "link", "set", "br0", "up")
    for name, address in addresses(hosts).items():
        _connect(folder, name, address)


def _connect(folder: Path, name: str, address: str) -> None:
    peer = ("peer", "name", "eth0", "netns", str(folder / name))
    _ip(folder, SWITCH, "link", "add", f"to-{name}", "type", "veth", *peer)
    _ip(folder, SWITCH, "link", "set", f"to-{name}", "master", "br0", "up")
    _ip(folder, name, "address", "add", f"{address}/{NETWORK.prefixlen}", "dev", "eth0")
    _ip(folder, name, "link", "set", "lo", "up")
    _ip(folder, name, "link", "set", "eth0", "up")


def _ip(folder: Path, name: str, *words: str) -> None:
    run(["nsenter", f"--net={folder / name}", "ip", *words])
