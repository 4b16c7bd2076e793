"""Plans, writes, submits and follows Horovod jobs in containers: the command, and the Python API.

Imports click, rich, spython and the standard library; never torch, tensorflow or horovod. The API
is loaded by its first use: `import runners.core` needs the standard library alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Job as Job
    from .api import JobFailed as JobFailed
    from .api import RunStatus as RunStatus
    from .api import job as job
    from .api import launch as launch
    from .api import plan as plan
    from .core.errors import NotFound as NotFound
    from .core.errors import NotVerified as NotVerified
    from .core.errors import Refused as Refused
    from .core.errors import RunnerError as RunnerError
    from .core.errors import SystemFault as SystemFault
    from .core.errors import UsageError as UsageError
    from .core.job_record import JobState as JobState
    from .core.plan import Plan as Plan
    from .core.version import __version__ as __version__

# The API's names, by the module that has them.
MODULES = {
    **dict.fromkeys(("launch", "plan", "job", "Job", "JobFailed", "RunStatus"), "api"),
    **dict.fromkeys(("NotFound", "NotVerified", "Refused", "RunnerError"), "core.errors"),
    **dict.fromkeys(("SystemFault", "UsageError"), "core.errors"),
    "JobState": "core.job_record",
    "Plan": "core.plan",
    "__version__": "core.version",
}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return getattr(import_module(f".{MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *MODULES])
