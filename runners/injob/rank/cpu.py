"""Before the trainer: has the node's CPU the instructions that the image's Horovod is compiled for.

Without them the first sum of gradients ends the rank by SIGILL, with no word of why.
"""

from __future__ import annotations

from .. import failure_kinds as kinds
from .problem import Problem

CPUINFO = "/proc/cpuinfo"
# x86-64 psABI, table 3.1, in the kernel's words: LZCNT is `abm`, OSXSAVE comes with `xsave`.
LEVELS = {
    "x86-64-v3": ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
}


def _missing(level: str) -> list[str]:
    """Return what this machine's CPU lacks of a level; nothing where the kernel does not tell."""
    here = _flags()
    return [name for name in LEVELS.get(level, ()) if name not in here] if here else []


def _flags() -> list[str]:
    try:
        with open(CPUINFO, encoding="utf-8") as text:
            return next((line.split() for line in text if line.startswith("flags")), [])
    except OSError:
        return []


def problem(level: str, host: str) -> Problem | None:
    """Return why this node cannot run the image's Horovod, which is compiled for `level`."""
    lacks = _missing(level)
    if not lacks:
        return None
    return Problem(
        kinds.CPU,
        f"the CPU of {host} is too old for the Horovod in the image",
        {
            "evidence": [
                f"it is compiled for {level}; the CPU has no {', '.join(lacks)} ({CPUINFO})",
                "try: nodes with a newer CPU (--constraint, --partition)",
            ]
        },
    )
