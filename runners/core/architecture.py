"""This machine's kind, in the words of Go, which registries and SIF files use."""

from __future__ import annotations

import os

WORDS = {"x86_64": "amd64", "aarch64": "arm64"}  # the others, such as ppc64le, are the same


def architecture() -> str:
    """Return this machine's architecture, such as amd64."""
    name = os.uname().machine
    return WORDS.get(name, name)
