"""This machine's architecture, named as in Go, registries and SIF files."""

from __future__ import annotations

import os

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
