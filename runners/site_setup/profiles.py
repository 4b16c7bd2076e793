"""The profiles of a set-up: the administrator's own, and one with the set-up's own folders."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path

from ..core.errors import Refused, UsageError
from ..core.site_profile import Profile
from ..settings.sites import create_profile, elsewhere, load
from ..settings.sites.create_profile import Fact
from .folder import SetUp

PATHS = "RUNNER_SITES_PATH"


def without_own(setup: SetUp, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it is before the set-up, whose module may be loaded.

    Copies of an administrator's profiles stay known where the files themselves are gone.
    """
    listed = env.get(PATHS, load.SITE_WIDE).split(os.pathsep)
    ours = (str(setup.sites), str(setup.own_sites))
    others = [folder for folder in listed if folder not in ours]
    before = {**env, PATHS: os.pathsep.join(others)}
    theirs = {path.stem for path in load.found(before).values() if path.parent != load.SHIPPED}
    if any(copy.stem in theirs for copy in setup.own_sites.glob("*.toml")):
        return before
    return {**env, PATHS: os.pathsep.join([*others, ours[1]])}


def own(setup: SetUp, name: str, env: Mapping[str, str]) -> dict[Path, str]:
    """Return where the administrator's files that make the profile go, with their text.

    Empty for a packaged profile. Raises Refused where two of one name make it, UsageError for a
    name that is hard to type.
    """
    texts: dict[Path, str] = {}
    for path in load.parts(load.found(env)[name], env):
        if path.parent == load.SHIPPED:
            continue
        if not create_profile.NAME.fullmatch(path.stem):
            raise UsageError(f"{path.stem!r} cannot be the name of a site for all", str(path))
        target = setup.own_sites / path.name
        if target in texts:
            raise Refused(
                f"the profile of {name} is made of two files named {path.name}",
                f"{path} and the one that it hides",
                "write the values of both into one of them",
            )
        texts[target] = path.read_text(encoding="utf-8")
    return texts


def missing(setup: SetUp, profile: Profile) -> dict[str, Path]:
    """Return the folders for all users that the profile does not name, by their keys in `paths`."""
    ours = {"images": setup.images, "datasets": setup.data}
    return {key: path for key, path in ours.items() if not profile.paths.get(key)}


def with_folders(name: str, folders: Mapping[str, Path]) -> str:
    """Return a profile of the same name on top of the site's, with these `paths`."""
    facts = [Fact(("paths", key), str(path), "runner site-setup") for key, path in folders.items()]
    today = datetime.date.today().isoformat()
    return f"base = {json.dumps(name)}\n{create_profile.tables(facts, today)}"


def named(profile: Profile) -> str:
    """Return what RUNNER_SITE has to be: the name of a profile that nothing else tells is here."""
    return "" if elsewhere.tells_itself(profile) else profile.name
