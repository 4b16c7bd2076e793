"""Plans of jobs that differ in a few settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runners.core.model import JobSpec
from runners.core.plan import Plan
from runners.core.site import Site
from runners.planning import solver
from runners.planning.case import Case


def planned(spec: JobSpec, site: Site, **changes: Any) -> Plan:
    """Return the plan of a job there, of which these fields are others."""
    return solver.solve(Case(replace(spec, **changes), site))
