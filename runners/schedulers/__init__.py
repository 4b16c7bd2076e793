"""Schedulers: what they lack, their script's lines, submit, ask for states, cancel.

One module each, whose SCHEDULER is a `base.Scheduler`; adding one is that module and a row in
CAPABILITIES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from .capabilities import CAPABILITIES, Capabilities

if TYPE_CHECKING:
    from .base import Scheduler


class _Schedulers(Mapping[str, "Scheduler"]):
    """The schedulers by name; each is imported when it is used, which is one in a launch."""

    def __getitem__(self, name: str) -> Scheduler:
        if name not in CAPABILITIES:
            raise KeyError(name)
        scheduler: Scheduler = import_module(f".{name}", __name__).SCHEDULER
        return scheduler

    def __iter__(self) -> Iterator[str]:
        return iter(CAPABILITIES)

    def __len__(self) -> int:
        return len(CAPABILITIES)


__all__ = ["CAPABILITIES", "SCHEDULERS", "Capabilities", "capabilities"]
SCHEDULERS: Mapping[str, Scheduler] = _Schedulers()


def capabilities(name: str) -> Capabilities:
    return CAPABILITIES[name]
