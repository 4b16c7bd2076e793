"""Reads profiles: their location, bases, sources of values, and faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, NamedTuple

from ..core import toml_check
from ..core.errors import NotFound, UsageError, close, nearest
from ..core.remedy import change, command
from ..core.site import Detect, NodeKind, Profile, Requirement, Rules, ValueSource
from ..core.toml_check import check, convert, kinds, one_of
from ..schedulers import CAPABILITIES
from ..settings.config import KINDS, check_table
from ..settings.config_files import read_toml, read_trusted, user_file
from ..settings.table import SETTINGS

SHIPPED = Path(__file__).parent
DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
SITE_WIDE = "/etc/runner/sites"
# About the file, or about this project, and not about the site.
WITHOUT_SOURCE = ("base", "title", "rendered", "sources")
OF_FILE = kinds(Profile, "name", "launch", "nodes", "sources", "files", "chosen")
KEYS: dict[str, Any] = {
    **OF_FILE,
    "base": str,
    "scheduler": Annotated[
        str, one_of(*(name for name, scheduler in CAPABILITIES.items() if not scheduler.within_job))
    ],
    "launch": KINDS,
    "sources": dict[str, ValueSource],
    "nodes": GenericAlias(dict, (str, kinds(NodeKind, "name"))),
    "rules": {
        **kinds(Rules),
        "require": dict.fromkeys(SETTINGS, Requirement),
        "forbid": dict.fromkeys(SETTINGS, str),
    },
}
Table = dict[str, Any]


def user_folder(env: Mapping[str, str]) -> Path:
    return user_file(env).parent / "sites"


def folders(env: Mapping[str, str]) -> list[Path]:
    """Return where to look: the user's, those of RUNNER_SITES_PATH or /etc/runner/sites, ours."""
    listed = env.get("RUNNER_SITES_PATH", SITE_WIDE)
    between = [Path(part) for part in listed.split(os.pathsep) if part]
    return [user_folder(env), *between, SHIPPED]


def found(env: Mapping[str, str]) -> dict[str, Path]:
    """Return the file of each profile's name, the user's before the others."""
    files: dict[str, Path] = {}
    for folder in folders(env):
        for path in sorted(folder.glob("*.toml")):
            files.setdefault(path.stem, path)
    return files


def behind(name: str, path: Path, env: Mapping[str, str]) -> Path | None:
    """Return the file that `path` hides: the next folder's of the same name."""
    paths = [folder / f"{name}.toml" for folder in folders(env)]
    later = paths[paths.index(path) + 1 :] if path in paths else paths
    return next((candidate for candidate in later if candidate.is_file()), None)


def shown(path: Path) -> str:
    """Return a path for people: ours without the place where runner is installed."""
    return f"runners/sites/{path.name}" if path.parent == SHIPPED else str(path)


def profile(name: str, env: Mapping[str, str], chosen: str = "") -> Profile:
    """Return a profile by its name.

    Raises NotFound for a name without a file, UsageError for a faulty file or a loop of bases.
    """
    known = found(env)
    if name not in known:
        near = [change(site=similar) for similar in close(name, known)]
        remedies = near or [command("runner", "sites")]
        raise NotFound(
            f"there is no site named {name!r}", nearest(name, known), remedies, id="site-unknown"
        )
    return build(name, parts(known[name], env), chosen)


def detect(path: Path, env: Mapping[str, str]) -> Detect:
    """Return what tells that this is the profile's site.

    Of a chain of files those of others are checked as a whole; ours the tests have checked, and all
    of them are read by each launch. Raises UsageError as `profile` does.
    """
    tables = parts(path, env, trusted=SHIPPED)
    signs: Detect = convert(OF_FILE["detect"], table(tables).get("detect", {}))
    return signs


def parts(path: Path, env: Mapping[str, str], trusted: Path | None = None) -> dict[Path, Table]:
    """Return what the file and its bases say, the outermost base first.

    They are checked, but for those in a `trusted` folder.
    """
    chain: dict[Path, Table] = {}
    following: Path | None = path
    while following:
        if following in chain:
            raise _loop([*chain, following])
        chain[following] = _content(following, env)
        if following.parent != trusted:
            check(shown(following), KEYS, chain[following])
        following = _base(following, chain[following].get("base"), env)
    return dict(reversed(chain.items()))


def _content(path: Path, env: Mapping[str, str]) -> Table:
    """A folder of RUNNER_SITES_PATH, which the environment names, vouches for its owner's files."""
    if path.parent in folders(env)[1:-1]:
        return read_trusted(path, env, named=path.parent)
    return read_toml(path)


def _base(path: Path, name: str | None, env: Mapping[str, str]) -> Path | None:
    """A profile may name its own name: the one that it hides."""
    if name is None:
        return None
    base = behind(name, path, env) if name == path.stem else found(env).get(name)
    if base is None:
        known = sorted(set(found(env)) - {path.stem})
        raise UsageError(
            f"{shown(path)}: base = {name!r} is no profile",
            nearest(name, known),
            id="profile-base-unknown",
        )
    return base


def _loop(paths: list[Path]) -> UsageError:
    begin = paths.index(paths[-1])
    way = " -> ".join(path.stem for path in paths[begin:])
    names = "\n".join(shown(path) for path in paths[begin:-1])
    return UsageError(f"base leads in a circle: {way}", names, id="profile-base-circle")


def leaves(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted key and value of all that says something about the site."""
    for key, value in table.items():
        if not prefix and key in WITHOUT_SOURCE:
            continue
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def source_of(key: str, sources: Mapping[str, Table]) -> ValueSource | None:
    """Return the source whose key is the longest beginning of a dotted key."""
    fits = [name for name in sources if f"{key}.".startswith(f"{name}.")]
    return ValueSource(**sources[max(fits, key=len)]) if fits else None


def merged(under: Table, over: Table) -> Table:
    """Return two tables as one; `over` wins, tables are merged, lists replaced."""
    result = dict(under)
    for key, value in over.items():
        both_tables = isinstance(result.get(key), dict) and isinstance(value, dict)
        result[key] = merged(result[key], value) if both_tables else value
    return result


def table(chain: Mapping[Path, Table]) -> Table:
    return reduce(merged, chain.values(), {})


def build(name: str, chain: Mapping[Path, Table], chosen: str = "") -> Profile:
    """Return the profile that a chain of files, bases first, makes."""
    sources: dict[str, ValueSource | None] = {}
    origins: dict[str, str] = {}
    for path, content in chain.items():
        for key, _ in leaves(content):
            origins[key] = shown(path)
            sources[key] = source_of(key, content.get("sources", {}))
    whole = table(chain)
    return Profile(
        name,
        launch=check_table(f"site {name}", whole.get("launch", {})).values,
        nodes=tuple(NodeKind(kind, **facts) for kind, facts in whole.get("nodes", {}).items()),
        sources={key: source for key, source in sources.items() if source},
        files=origins,
        chosen=chosen,
        **{key: convert(OF_FILE[key], value) for key, value in whole.items() if key in OF_FILE},
    )


class SiteValue(NamedTuple):
    """A value of a site, where it comes from, and the file of a profile that has it."""

    key: str
    value: Any
    source: ValueSource
    file: str

    @property
    def facts(self) -> dict[str, Any]:
        """The value for programs; a list is one text."""
        return {
            "key": self.key,
            "value": ", ".join(self.value) if isinstance(self.value, list) else self.value,
            "source": self.source.text,
            "date": self.source.date,
            "file": self.file,
        }


def values(profile: Profile, env: Mapping[str, str]) -> list[SiteValue]:
    """Return every value of a site, those of its profile's bases included."""
    chain = parts(found(env)[profile.name], env)
    return [
        SiteValue(key, value, profile.sources.get(key, ValueSource()), profile.files[key])
        for key, value in leaves(table(chain))
    ]


def faults_of_all(paths: Iterable[Path], env: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the faults of files, by default of all profiles, by the files as they are shown."""
    checked = tuple(paths) or found(env).values()
    return {shown(path): faults(path, env) for path in checked}


def faults(path: Path, env: Mapping[str, str]) -> list[str]:
    """Return every fault of a file, each a sentence; empty when there is none."""
    try:
        table = read_toml(path)
    except UsageError as error:
        return [f"{error.what}: {error.evidence}"]
    wrong_types = toml_check.faults(KEYS, table)
    if wrong_types:
        return wrong_types  # what follows needs the right types
    try:
        made = build(path.stem, parts(path, env))
    except UsageError as error:
        return [" ".join(f"{error.what} {error.evidence}".split())]
    reasons = [
        f"rules.require.{setting} has no reason"
        for setting, rule in made.rules.require.items()
        if not rule.reason
    ]
    return [*reasons, *_sources(table)]


def _sources(table: Table) -> list[str]:
    sources, keys = table.get("sources", {}), [key for key, _ in leaves(table)]
    missing = [f"{key} has no source" for key in keys if not source_of(key, sources)]
    return [*missing, *(text for name in sources for text in _source(name, sources[name], keys))]


def _source(name: str, source: Mapping[str, str], keys: list[str]) -> list[str]:
    faults = []
    if not source.get("text"):
        faults.append(f"sources.{name} has no text")
    if not DATE.fullmatch(source.get("date", "")):
        faults.append(f"sources.{name} has no date such as 2026-11-21")
    if not any(f"{key}.".startswith(f"{name}.") for key in keys):
        faults.append(f"sources.{name} is about nothing in this file")
    return faults
