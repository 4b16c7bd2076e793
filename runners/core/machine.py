"""This machine: its architecture, named as in Go, registries and SIF files, and what fits on it."""

from __future__ import annotations

import os
import re
from pathlib import Path

AMD64, ARM64 = "amd64", "arm64"
WORDS = {"x86_64": AMD64, "aarch64": ARM64}  # the others, such as ppc64le, are the same
MACHINES = {word: machine for machine, word in WORDS.items()}  # as wheels and compilers name them


def architecture() -> str:
    """Return this machine's architecture, such as amd64."""
    name = os.uname().machine
    return WORDS.get(name, name)


def file_name(image: str, wanted: str) -> str:
    """Return the name of an image's file; one that is for other machines says for which."""
    return f"{image}.sif" if wanted == architecture() else f"{image}.{wanted}.sif"


def at_once(needed: int) -> int:
    """Return how many programs that need `needed` bytes of memory may run here at once."""
    return fitting(len(os.sched_getaffinity(0)), available_memory(), needed)


def fitting(cores: int, memory: int, needed: int) -> int:
    """Return how many programs fit: one for each core, as far as memory allows."""
    return max(1, min(cores, memory // needed))


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes of memory that programs can get without swapping."""
    match = re.search(r"^MemAvailable: +(\d+) kB$", meminfo.read_text("utf-8"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
