"""torch.distributed's process group, formed by ranks that Horovod has brought together.

    hvd.init()
    process_group.join(hvd, device)

Nothing has to be said about hosts, ports or network interfaces: Horovod's ranks know their numbers
and tell each other the rest. The group's interface is the one that leads to rank 0, because what
the host's name leads to, PyTorch's own choice, is often the loopback interface.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import distributed

from recipes.common import UserError

SIOCGIFADDR = 0x8915  # linux/sockios.h: the IPv4 address of an interface
SECONDS_TO_CONNECT = 5.0


def join(hvd: Any, device: torch.device) -> None:
    """Form the group of all ranks: Gloo for tensors of CPUs, and NCCL with a GPU. Collective.

    Raises `UserError` on all ranks if rank 0 has no address that all of them reach.
    """
    first, size = hvd.rank() == 0, hvd.size()
    store = distributed.TCPStore("localhost", 0, is_master=True) if first else None
    mine = (_candidates(hvd.local_size() == size), store.port) if store is not None else None
    # Horovod: where rank 0 listens, and from where the others reach it.
    candidates, port = hvd.broadcast_object(mine, root_rank=0, name="candidates")
    routes = {one: route for one in candidates if (route := _route(one, port))}
    everyone = hvd.allgather_object((socket.gethostname(), sorted(routes)), name="routes")
    address = _common_address(candidates, everyone)
    if store is None:
        store = distributed.TCPStore(address, port, is_master=False)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface_with(routes[address]))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=hvd.rank(), world_size=size)


def _always(value: int) -> Callable[[], int]:
    return lambda: int(value)


class World:
    """The process group under the names of Horovod's functions, for what trainers share.

    It remembers what Horovod said of the ranks, so that Horovod may be shut down: its background
    thread wakes a thousand times a second, and on a small share of cores training feels it.
    """

    Average, Sum = "average", "sum"

    def __init__(self, hvd: Any) -> None:
        self.rank, self.size = _always(hvd.rank()), _always(hvd.size())
        self.local_rank, self.local_size = _always(hvd.local_rank()), _always(hvd.local_size())
        self.mpi_enabled = _always(hvd.mpi_enabled())
        self.gloo_enabled = _always(hvd.gloo_enabled())

    def allreduce(self, tensor: torch.Tensor, op: str, name: str) -> torch.Tensor:
        """Return the sum or the mean of all ranks' tensors."""
        return self.synchronize(self.allreduce_async_(tensor.clone(), op, name))

    def allreduce_async_(self, tensor: torch.Tensor, op: str, name: str) -> Any:
        """Begin to replace a tensor by all ranks' sum or mean."""
        return distributed.all_reduce(tensor, async_op=True), tensor, op

    def synchronize(self, handle: Any) -> torch.Tensor:
        """End what `allreduce_async_` began."""
        work, tensor, op = handle
        work.wait()
        return tensor.div_(self.size()) if op == self.Average else tensor

    def allgather_object(self, mine: Any, name: str) -> list[Any]:
        """Return all ranks' objects, by rank."""
        found: list[Any] = [None] * self.size()
        distributed.all_gather_object(found, mine)
        return found

    def broadcast_object(self, mine: Any, root_rank: int, name: str) -> Any:
        """Return the object of `root_rank`."""
        box = [mine]
        distributed.broadcast_object_list(box, src=root_rank)
        return box[0]

    def shutdown(self) -> None:
        """Leave the group."""
        distributed.destroy_process_group()


def _candidates(one_host: bool) -> list[str]:
    """Return the addresses of this host, best first: those of the interface that was asked for."""
    if one_host:
        return ["127.0.0.1"]
    asked = os.environ.get("GLOO_SOCKET_IFNAME") or os.environ.get("HOROVOD_GLOO_IFACE") or ""
    found = dict(_interfaces())
    wanted = [found[name] for name in asked.split(",") if name in found]
    return wanted or [one for one in found.values() if not one.startswith("127.")]


def _interfaces() -> Iterator[tuple[str, str]]:
    """Yield the names of this host's interfaces with their IPv4 addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, request)
            except OSError:  # an interface without such an address
                continue
            yield name, socket.inet_ntoa(answer[20:24])


def _interface_with(address: str) -> str:
    return next(name for name, found in _interfaces() if found == address)


def _route(address: str, port: int) -> str:
    """Return this host's address from which it reaches another, or nothing."""
    try:
        with socket.create_connection((address, port), SECONDS_TO_CONNECT) as sock:
            return str(sock.getsockname()[0])
    except OSError:
        return ""


def _common_address(candidates: list[str], everyone: list[tuple[str, list[str]]]) -> str:
    """Return the first address of rank 0 that all ranks have reached."""
    for address in candidates:
        if all(address in reached for _, reached in everyone):
            return address
    lost = sorted({host for host, reached in everyone if not reached})
    raise UserError(
        f"rank 0 on {everyone[0][0]} has no address that all ranks reach; it tried "
        f"{', '.join(candidates) or 'none'}, without an answer from {', '.join(lost) or 'some'}.\n"
        "Name the network interface that leads there: GLOO_SOCKET_IFNAME=NAME"
    )
