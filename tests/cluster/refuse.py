"""Run a program as on a kernel that refuses it namespaces: refuse.py FLAGS ERRNO COMMAND...

The kernel's own switches (user.max_user_namespaces and its like) are those of a whole machine; a
filter (seccomp(2), as systemd's RestrictNamespaces= sets it) is inherited by what the program
starts, and a container runtime cannot tell one from the other. FLAGS are in hex, those of
clone(2); ERRNO is what the kernel is to answer.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2  # linux/prctl.h, linux/seccomp.h
ALLOW, ANSWER = 0x7FFF0000, 0x00050000  # linux/seccomp.h: SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
LOAD, IF_EQUAL, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # linux/bpf_common.h
NUMBER, FIRST_ARGUMENT = 0, 16  # offsets in struct seccomp_data
ENOSYS = 38
# clone, unshare, clone3 (asm/unistd_64.h and asm-generic/unistd.h)
CALLS = {"x86_64": (56, 272, 435), "aarch64": (220, 97, 435)}


def program(flags: int, errno: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the filter's instructions: code, steps to skip if true and if false, value."""
    clone, unshare, clone3 = CALLS[platform.machine()]
    yield LOAD, 0, 0, NUMBER
    # Its flags are in memory, where a filter cannot look; without it programs use clone.
    yield IF_EQUAL, 6, 0, clone3
    yield IF_EQUAL, 1, 0, clone
    yield IF_EQUAL, 0, 2, unshare
    yield LOAD, 0, 0, FIRST_ARGUMENT
    yield IF_ANY_BIT, 1, 0, flags
    yield RETURN, 0, 0, ALLOW
    yield RETURN, 0, 0, ANSWER | errno
    yield RETURN, 0, 0, ANSWER | ENOSYS


def refuse(flags: int, errno: int) -> None:
    """Set the filter for this process and all that it starts; needs root. Raises OSError."""
    text = b"".join(struct.pack("HBBI", *instruction) for instruction in program(flags, errno))
    code = ctypes.create_string_buffer(text, len(text))
    head = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(text) // 8, ctypes.addressof(code))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")


if __name__ == "__main__":
    refuse(int(sys.argv[1], 16), int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
