"""Which site this is: by name, or by what the cluster and this machine call themselves.

Reads profiles, and asks nothing of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ...core.errors import UsageError
from ...core.site_profile import Detect, Profile
from . import load, profile_files

NONE = "none"


def find(name: str | None, cluster: str, host: str, env: Mapping[str, str]) -> Profile | None:
    """Return the profile in force, None where no site is known or `name` is "none".

    `cluster` is Slurm's ClusterName, "" when unknown; `host` this machine's name. Raises NotFound
    for a name that no profile has, UsageError for a faulty profile.
    """
    if name == NONE:
        return None
    if name:
        return load.profile(name, env, "as asked")
    for candidate, path in profile_files.found(env).items():
        try:
            detect = load.build(candidate, load.parts(path, env)).detect
        except UsageError as error:
            raise UsageError(error.message, error.evidence, "--site NAME, or --site none") from None
        chosen = why(detect, cluster, host, env)
        if chosen:
            return load.profile(candidate, env, chosen)
    return None


def why(detect: Detect, cluster: str, host: str, env: Mapping[str, str]) -> str:
    """Return what tells that this is the site, "" when nothing does."""
    for variable, value in detect.env.items():
        if env.get(variable) == value:
            return f"{variable} is {value}"
    if cluster and cluster in detect.clusters:
        return f"the cluster calls itself {cluster}"
    for pattern in detect.hosts:
        if fnmatchcase(host.lower(), pattern):
            return f"this machine, {host}, is named like {pattern}"
    return ""
