"""Detects the site, by name or by the names of the cluster and this machine.

A site that was named on a machine of another one is known by its profile alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ..core import shell
from ..core.errors import UsageError
from ..core.remedy import Remedy, advice
from ..core.site import Detect, Profile, Site
from ..schedulers.slurm import CONFIG, parse_config
from ..settings import config
from . import load

NONE = "none"
SECONDS = 10.0


class KnownSite(NamedTuple):
    """A site's profile and its file; `chosen` says how this machine is known to be of it."""

    profile: Profile
    path: Path
    chosen: str

    @property
    def facts(self) -> dict[str, Any]:
        """The site for programs."""
        return {
            "name": self.profile.name,
            "title": self.profile.title,
            "scheduler": self.profile.scheduler or "",
            "runtimes": self.profile.runtimes,
            "never_run": self.profile.rendered,
            "in_force": self.chosen,
            "file": str(self.path),
        }


def known(env: Mapping[str, str]) -> tuple[list[KnownSite], str]:
    """Return all sites by their names, and what could not be asked of this machine, as `here`."""
    profile, problem = here(env)
    chosen = {profile.name: profile.chosen} if profile else {}
    return [
        KnownSite(load.profile(name, env), path, chosen.get(name, ""))
        for name, path in sorted(load.found(env).items())
    ], problem


def here(env: Mapping[str, str]) -> tuple[Profile | None, str]:
    """Return the profile in force here, by the setting `site` or else by this machine's names.

    With it goes what could not be asked, "" when all could.
    """
    name = config.load({}, env, strict=False).get("site")
    known, problem = ("", "") if name else cluster(env)
    return find(name, known, os.uname().nodename, env), problem


def cluster(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the Slurm cluster's name for itself, and why it is not known; both may be ""."""
    if not shutil.which("scontrol"):
        return env.get("SLURM_CLUSTER_NAME", ""), ""
    answer = shell.together([CONFIG], SECONDS)[0]
    name = parse_config(answer.out).get("ClusterName", "")
    message = (answer.err or answer.out).strip().partition("\n")[0]
    return name, "" if name else f"scontrol did not tell the cluster's name: {message}"


def find(name: str | None, cluster: str, host: str, env: Mapping[str, str]) -> Profile | None:
    """Return the profile in force, None where no site is known or `name` is "none".

    `cluster` is Slurm's ClusterName, "" when unknown; `host` this machine's name. Raises NotFound
    for a name that no profile has, UsageError for a faulty profile.
    """
    if name == NONE:
        return None
    if name:
        return load.profile(name, env, "as requested")
    for candidate, path in load.found(env).items():
        try:
            if chosen := why(load.detect(path, env), cluster, host, env):
                return load.profile(candidate, env, chosen)
        except UsageError as error:
            otherwise = [*error.remedies, advice("--site NAME, or --site none")]
            raise UsageError(error.what, error.evidence, otherwise, id=error.diagnosis.id) from None
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


def is_remote_site(profile: Profile, cluster: str, host: str, env: Mapping[str, str]) -> bool:
    """Whether this machine is not of that site.

    A profile that does not say itself what tells its machines is taken to mean this one.
    """
    files = [file for key, file in profile.files.items() if key.startswith("detect.")]
    tells_itself = any(Path(file).stem == profile.name for file in files)
    return tells_itself and not why(profile.detect, cluster, host, env)


def remote(profile: Profile, cwd: str) -> Site:
    """Return a site that is not here: its profile, and nothing of this machine."""
    return Site(cwd=cwd, profile=profile, remote_site=True)


def refused(profile: Profile, host: str, env: Mapping[str, str], *remedies: Remedy) -> UsageError:
    """Return why nothing is done here that only a machine of that site can do."""
    detect = profile.detect
    signs = [
        *(f"{name}={value}" for name, value in detect.env.items()),
        *(f"a cluster named {name}" for name in detect.clusters),
        *(f"machines named {pattern}" for pattern in detect.hosts),
    ]
    profile_file = load.user_folder(env) / f"{profile.name}.toml"
    base = f'base = "{profile.name}" and [detect] hosts = ["{host}"]'
    return UsageError(
        f"this machine, {host}, is not of {profile.name}: its jobs are shown here, not submitted",
        f"its profile tells it by {', '.join(signs)}",
        [*remedies, advice(f"if it is one of {profile.name}, write {profile_file} with {base}")],
        id="other-machine",
    )
