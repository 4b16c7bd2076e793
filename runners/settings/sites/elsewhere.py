"""A site that was named on a machine that is none of its own: its profile is all that is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...core.errors import UsageError
from ...core.remedy import Remedy, advice
from ...core.site import Site
from ...core.site_profile import Profile
from . import find, load


def is_elsewhere(profile: Profile, cluster: str, host: str, env: Mapping[str, str]) -> bool:
    """Whether this machine is not of that site.

    A profile that does not say itself what tells its machines is taken to mean this one.
    """
    return tells_itself(profile) and not find.why(profile.detect, cluster, host, env)


def tells_itself(profile: Profile) -> bool:
    """Whether the profile itself, and not only its bases, says what tells that it is here."""
    files = [file for key, file in profile.files.items() if key.startswith("detect.")]
    return any(Path(file).stem == profile.name for file in files)


def site(profile: Profile, cwd: str) -> Site:
    """Return the site as its profile has it, and nothing of this machine."""
    return Site(cwd=cwd, profile=profile, elsewhere=True)


def refused(profile: Profile, host: str, env: Mapping[str, str], *remedies: Remedy) -> UsageError:
    """Return why nothing is done here that only a machine of that site can do."""
    detect = profile.detect
    signs = [
        *(f"{name}={value}" for name, value in detect.env.items()),
        *(f"a cluster named {name}" for name in detect.clusters),
        *(f"machines named {pattern}" for pattern in detect.hosts),
    ]
    own = load.user_folder(env) / f"{profile.name}.toml"
    base = f'base = "{profile.name}" and [detect] hosts = ["{host}"]'
    return UsageError(
        f"this machine, {host}, is not of {profile.name}: its jobs are shown here, not submitted",
        f"its profile tells it by {', '.join(signs)}",
        [*remedies, advice(f"if it is one of {profile.name}, write {own} with {base}")],
    )
