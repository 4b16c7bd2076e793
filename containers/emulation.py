"""Whether programs for another architecture run here: an image for it is built by emulation."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from pathlib import Path

from runners.core.architecture import ARM64, architecture
from runners.core.errors import Refused

# Ends itself with success: mov x8, #93 (exit); mov x0, #0; svc #0.
ENDS = struct.pack("<3I", 0xD2800BA8, 0xD2800000, 0xD4000001)
AT, HEADERS = 0x400000, 64 + 56  # where it is loaded; bytes of the ELF's two headers
ARM = 183  # EM_AARCH64
EMULATION = "apt-get install qemu-user-static binfmt-support (as root), or build on such a machine"


def required(wanted: str) -> bool:
    """Whether programs for this architecture need emulation here. Refused when there is none.

    A program of ours is tried: what the kernel has registered may lack its interpreter.
    """
    if wanted == architecture():
        return False
    problem = _try(_program()) if wanted == ARM64 else "only arm64 is tried"
    if problem:
        raise Refused(
            f"this machine, {architecture()}, runs no programs for {wanted}", problem, EMULATION
        )
    return True


def _try(program: bytes) -> str:
    """Run a program; return what went wrong, "" when it ended well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program")
        path.write_bytes(program)
        path.chmod(0o755)
        try:
            code = subprocess.run([str(path)], check=False).returncode
        except OSError as error:
            return f"{error.strerror} (binfmt_misc has no interpreter for it)"
    return f"it ended with {code}" if code else ""


def _program() -> bytes:
    """Return the smallest program for Arm: an ELF with one segment."""
    size = HEADERS + len(ENDS)
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, ARM, 1, AT + HEADERS, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, AT, AT, size, size, 0x10000) + ENDS
