"""Where prebuilt images are: `[images] source` of a runner.toml or of the site's profile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..core.errors import NotFound, UsageError
from ..core.site import Prebuilt
from ..core.toml_check import check, kinds
from ..settings import config_files
from ..sites import find_site

VARIABLE = "RUNNER_IMAGES_SOURCE"


class PrebuiltSource(NamedTuple):
    """A folder or oras://HOST/FOLDER, "" for none, and what named it."""

    text: str = ""
    origin: str = ""


def source(env: Mapping[str, str]) -> PrebuiltSource:
    """Return where prebuilt images are: the nearest that says so wins.

    That is the variable, the project's file, the user's, the site's profile. Raises UsageError for
    what is no source.
    """
    named = ((origin, text) for origin, text in _said(env) if text)
    origin, text = next(named, ("", ""))
    return PrebuiltSource(checked(origin, text), origin) if text else PrebuiltSource()


def _said(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield VARIABLE, env.get(VARIABLE, "")
    tables = config_files.tables(env, "images")
    for path, table in tables:
        check(path, kinds(Prebuilt), table)
    yield from ((path, table.get("source", "")) for path, table in reversed(tables))
    profile, _ = find_site.here(env)  # asks Slurm, and so comes after what files say
    if profile:
        yield f"site {profile.name}", profile.images.source


def no_source(short: str = "cpu") -> NotFound:
    """Return the error where nothing names a source; `short` is the image that was wanted."""
    return NotFound(
        "no source of prebuilt images is set",
        f'yours: [images] source = "oras://HOST/FOLDER" in runner.toml, or {VARIABLE}\n'
        "for all users, by an administrator: [images] source in the site's profile, in"
        " /etc/runner/sites",
        f"runner build {short}",
        id="no-image-source",
    )


def checked(origin: str, text: str) -> str:
    """Return a source without its last slash; raise UsageError for what is none."""
    if text.startswith("oras://"):
        return text.rstrip("/")
    if "://" not in text and os.path.isabs(os.path.expanduser(text)):
        return os.path.expanduser(text)
    raise UsageError(
        f"{origin}: {text!r} is no source of images",
        remedy="oras://HOST/FOLDER, or a folder",
        id="image-source-malformed",
    )


def typed(text: str) -> str:
    """Return a source as it was typed, where a folder may be relative; raise as `checked`."""
    in_folder = "://" not in text
    return checked("--list", os.path.abspath(os.path.expanduser(text)) if in_folder else text)
