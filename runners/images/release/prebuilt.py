"""Where prebuilt images are, and the public key of those who publish them.

`[images] source` and `key` of a runner.toml, the site's profile, a mirror in the site's folder of
images, or the package's own metadata: a release writes its place there (`Project-URL: Images`) and
its key beside this file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import NotFound, UsageError
from ...core.site import Prebuilt, Profile
from ...core.toml_check import check, kinds
from ...core.version import __version__
from ...settings import config
from ...sites import find

VARIABLE, KEY_VARIABLE = "RUNNER_IMAGES_SOURCE", "RUNNER_IMAGES_KEY"
KEY_FILE = "release-key.asc"
PACKAGED_KEY = Path(__file__).with_name(KEY_FILE)
URL_LABEL = "Images"  # among the package's Project-URLs


@dataclass(frozen=True)
class ReleaseSource:
    """A source of images and a file with a public key, "" for none; `origin` named the source."""

    source: str = ""
    key: str = ""
    origin: str = ""


def release_source(env: Mapping[str, str], source: str = "", origin: str = "") -> ReleaseSource:
    """Return where prebuilt images are; the nearest that says so wins, for the key as well.

    That is the variable, the project's file, the user's, the site's profile, the package; a
    `source` that the option `origin` named is before all. Raises UsageError for what is no source.
    """
    key = ""
    for where, prebuilt in _said(env):
        if prebuilt.source and not source:
            source, origin = checked(where, prebuilt.source), where
        key = key or prebuilt.key
        if source and key:
            break
    return ReleaseSource(source, os.path.expanduser(key), origin)


def no_source(short: str = "cpu") -> NotFound:
    """Return the error where nothing names a source; `short` is the image that was wanted."""
    return NotFound(
        "no source of prebuilt images is set",
        f'yours: [images] source = "oras://HOST/FOLDER" in runner.toml, or {VARIABLE}\n'
        "for all users, by an administrator: [images] source and key in the site's profile, in"
        " /etc/runner/sites",
        f"runner build {short}",
    )


def _said(env: Mapping[str, str]) -> Iterator[tuple[str, Prebuilt]]:
    yield VARIABLE, Prebuilt(env.get(VARIABLE, ""), env.get(KEY_VARIABLE, ""))
    yield from reversed(_in_files(env))
    profile, _ = find.here(env)  # asks Slurm, and so comes after what files say
    if profile:
        yield f"site {profile.name}", profile.images
        yield f"site {profile.name}", _mirror(profile, env)
    yield "the package", Prebuilt(_packaged(), str(PACKAGED_KEY) if PACKAGED_KEY.exists() else "")


def _in_files(env: Mapping[str, str]) -> list[tuple[str, Prebuilt]]:
    tables = config.tables(env, "images")
    for where, table in tables:
        check(where, kinds(Prebuilt), table)
    return [(where, Prebuilt(**table)) for where, table in tables]


def _mirror(profile: Profile, env: Mapping[str, str]) -> Prebuilt:
    """Return the site's own folder of images, if it has this version's release, and its key.

    Who can write there gives the site's users what they run, and so their key counts.
    """
    folder = profile.folder("images", env)
    if folder is None or not (folder / file_of(__version__)).exists():
        return Prebuilt()
    key = folder / KEY_FILE
    return Prebuilt(str(folder), str(key) if key.exists() else "")


def file_of(version: str) -> str:
    """The name of a release's record in a folder; its signature is the same with .asc."""
    return f"release-{version}.json"


def _packaged() -> str:
    import importlib.metadata as metadata  # 15 ms, which only who looks for an image pays

    try:
        urls = metadata.metadata("horovod-runner").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # a checkout that nobody installed
        return ""
    labels: list[str] = [url for url in urls if url.startswith(f"{URL_LABEL}, ")]
    return labels[0].partition(", ")[2] if labels else ""


def checked(where: str, text: str) -> str:
    """Return a source without its last slash; raise UsageError for what is none."""
    if text.startswith("oras://"):
        return text.rstrip("/")
    if "://" not in text and os.path.isabs(os.path.expanduser(text)):
        return os.path.expanduser(text)
    raise UsageError(
        f"{where}: {text!r} is no source of images", remedy="oras://HOST/FOLDER, or a folder"
    )


def typed(option: str, text: str) -> str:
    """Return a source as it was typed, where a folder may be relative; raise as `checked`."""
    return checked(option, text if "://" in text else os.path.abspath(os.path.expanduser(text)))
