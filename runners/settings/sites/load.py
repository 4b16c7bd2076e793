"""Reads profiles: where they lie, their bases, who said what, and what is wrong in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

from ...core.errors import NotFound, UsageError, nearest
from ...core.site_profile import NodeKind, Profile, Requirement, Rules, Source
from ...core.toml_check import check, kinds, made, one_of
from ...schedulers import SCHEDULERS, capabilities
from ..config import KINDS, check_table, read_toml, user_file
from ..table import SETTINGS

SHIPPED = Path(__file__).parent
SITE_WIDE = "/etc/runner/sites"
# About the file, or about this project, and not about the site.
WITHOUT_SOURCE = ("base", "title", "rendered", "sources")
OF_FILE = kinds(Profile, "name", "launch", "nodes", "sources", "files", "chosen")
KEYS: dict[str, Any] = {
    **OF_FILE,
    "base": str,
    "scheduler": Annotated[
        str, one_of(*(name for name in SCHEDULERS if not capabilities(name).within_job))
    ],
    "launch": KINDS,
    "sources": dict[str, Source],
    "nodes": GenericAlias(dict, (str, kinds(NodeKind, "name"))),
    "rules": {
        **kinds(Rules),
        "require": dict.fromkeys(SETTINGS, Requirement),
        "forbid": dict.fromkeys(SETTINGS, str),
    },
}
Table = dict[str, Any]


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's own profiles, whether it exists or not."""
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
    return next((other for other in later if other.is_file()), None)


def shown(path: Path) -> str:
    """Return a path for people: ours without the place where runner is installed."""
    return f"runners/settings/sites/{path.name}" if path.parent == SHIPPED else str(path)


@dataclass(frozen=True)
class Part:
    """One file of a profile: where it lies and what it says, checked."""

    path: Path
    table: Table


def profile(name: str, env: Mapping[str, str], chosen: str = "") -> Profile:
    """Return a profile by its name.

    Raises NotFound for a name without a file, UsageError for a faulty file or a loop of bases.
    """
    known = found(env)
    if name not in known:
        raise NotFound(f"there is no site named {name!r}", nearest(name, known), "runner sites")
    return build(name, parts(known[name], env), chosen)


def parts(path: Path, env: Mapping[str, str]) -> list[Part]:
    """Return the file and its bases, the outermost base first."""
    chain: list[Part] = []
    following: Path | None = path
    while following:
        if any(part.path == following for part in chain):
            raise _loop([*(part.path for part in chain), following])
        chain.append(Part(following, read(following)))
        following = _base(chain[-1], env)
    return chain[::-1]


def read(path: Path) -> Table:
    """Parse and check one file; raise UsageError with all that is wrong in it."""
    table = read_toml(path)
    check(shown(path), KEYS, table)
    return table


def _base(part: Part, env: Mapping[str, str]) -> Path | None:
    """A profile may name its own name: the one that it hides."""
    name = part.table.get("base")
    if name is None:
        return None
    own = name == part.path.stem
    path = behind(name, part.path, env) if own else found(env).get(name)
    if path is None:
        known = sorted(set(found(env)) - {part.path.stem})
        raise UsageError(f"{shown(part.path)}: base = {name!r} is no profile", nearest(name, known))
    return path


def _loop(paths: list[Path]) -> UsageError:
    begin = paths.index(paths[-1])
    way = " -> ".join(path.stem for path in paths[begin:])
    names = "\n".join(shown(path) for path in paths[begin:-1])
    return UsageError(f"base leads in a circle: {way}", names)


def leaves(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted key and value of all that says something about the site."""
    for key, value in table.items():
        if not prefix and key in WITHOUT_SOURCE:
            continue
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def source_of(key: str, sources: Mapping[str, Table]) -> Source | None:
    """Return the source whose key is the longest beginning of a dotted key."""
    fits = [name for name in sources if key == name or key.startswith(name + ".")]
    if not fits:
        return None
    table = sources[max(fits, key=len)]
    return Source(table.get("text", ""), table.get("date", ""))


def merged(under: Table, over: Table) -> Table:
    """Return two tables as one; `over` wins, tables are merged, lists replaced."""
    result = dict(under)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(old, value) if both and old is not None else value
    return result


def table(chain: list[Part]) -> Table:
    """Return what a chain of files, bases first, says in all."""
    whole: Table = {}
    for part in chain:
        whole = merged(whole, part.table)
    return whole


def build(name: str, chain: list[Part], chosen: str = "") -> Profile:
    """Return the profile that a chain of files, bases first, makes."""
    sources: dict[str, Source] = {}
    origins: dict[str, str] = {}
    for part in chain:
        for key, _ in leaves(part.table):
            origins[key] = shown(part.path)
            sources.pop(key, None)
            source = source_of(key, part.table.get("sources", {}))
            if source:
                sources[key] = source
    whole = table(chain)
    return Profile(
        name,
        launch=check_table(f"site {name}", whole.get("launch", {})).values,
        nodes=tuple(NodeKind(kind, **facts) for kind, facts in whole.get("nodes", {}).items()),
        sources=sources,
        files=origins,
        chosen=chosen,
        **{key: made(OF_FILE[key], value) for key, value in whole.items() if key in OF_FILE},
    )
