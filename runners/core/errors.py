"""The errors of `runner`: those of `containers`, and two more."""

from __future__ import annotations

from containers.errors import Refused, RunnerError, SystemFault, UsageError, nearest

__all__ = [
    "NotFound",
    "NotVerified",
    "Refused",
    "RunnerError",
    "SystemFault",
    "UsageError",
    "nearest",
]


class NotVerified(RunnerError):
    """An image's signature, digest or behaviour is wrong."""


class NotFound(UsageError):
    """A name that stands for nothing."""
