"""The one address in a rank's list of addresses that a certain other rank needs.

Gloo (as in Horovod 0.28.1) opens a socket for each pair of ranks, and each rank publishes one
list: its addresses for all the others, in their order, itself left out. Everybody reads all lists
and takes one entry of each: N lists of N entries for N readers. Over the network only the entries
travel, and the reader's store fills up the rest of the list with zeros.
"""

from __future__ import annotations

import socket
import struct

# Gloo's address: struct sockaddr_storage (128 bytes) and a number of ssize_t.
SIZE = 128 + struct.calcsize("n")
FAMILY = struct.Struct("=H")
FAMILIES = (int(socket.AF_INET), int(socket.AF_INET6))
HEAD = struct.Struct(">II")  # length of the whole list, position of the entry


def is_list(value: bytes) -> bool:
    """Whether the value is a list of Gloo's addresses; another Gloo's may be something else."""
    starts = range(0, len(value), SIZE)
    return len(value) % SIZE == 0 and all(
        FAMILY.unpack_from(value, start)[0] in FAMILIES for start in starts
    )


def cut(value: bytes, owner: int, reader: int) -> bytes:
    """Return the reader's entry of the owner's list, with its place."""
    start = SIZE * (reader - 1 if reader > owner else reader)
    return HEAD.pack(len(value), start) + value[start : start + SIZE]


def fill(entry: bytes) -> bytes:
    """Return a list with only this entry in it, as long as the whole."""
    length, start = HEAD.unpack_from(entry)
    body = entry[HEAD.size :]
    return bytes(start) + body + bytes(length - start - len(body))
