"""The site of a launch: the one that was named, or the one that this machine belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.errors import FirstProblem
from ..core.model import SchedulerName
from ..core.remedy import Remedy
from ..core.site import Site
from ..schedulers import capabilities
from ..settings import config, request
from . import find_site, probe


def find(
    flags: Mapping[str, Any],
    preset: config.ConfigLayer | None,
    fresh: bool = False,
    problems: FirstProblem = request.AT_ONCE,
) -> Site:
    """Return what this machine offers, with the profile of the site that it belongs to.

    A site that was named and is not here has its profile alone; where `problems` keeps that there
    is no such site, there is none. Slurm's answers may be a minute old, unless `fresh`.
    """
    here, host = probe.probe(fresh), os.uname().nodename
    settings = config.load(flags, os.environ, preset)
    name = settings.get("site")
    scheduler = request.one_of(SchedulerName, settings.get("scheduler"))
    profile = problems.of(find_site.find, name, here.cluster_name, host, os.environ)
    queued = scheduler is None or capabilities(scheduler).queue
    if not (profile and name and queued):
        return replace(here, profile=profile)
    if find_site.is_remote_site(profile, here.cluster_name, host, os.environ):
        return find_site.remote(profile, os.getcwd())
    return replace(here, profile=profile)


def only_here(site: Site, *remedies: Remedy) -> None:
    """Raise UsageError for a site that is not here, where its machines are needed."""
    if site.remote_site and site.profile:
        raise find_site.refused(site.profile, os.uname().nodename, os.environ, *remedies)
