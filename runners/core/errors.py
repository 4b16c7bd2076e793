"""The errors of `runner`: those of `containers`, and two more."""

from __future__ import annotations

from containers.errors import Refused as Refused
from containers.errors import RunnerError as RunnerError
from containers.errors import SystemFault as SystemFault
from containers.errors import UsageError as UsageError
from containers.errors import nearest as nearest


class NotVerified(RunnerError):
    """An image's signature, digest or behaviour is wrong."""


class NotFound(UsageError):
    """A name that stands for nothing."""
