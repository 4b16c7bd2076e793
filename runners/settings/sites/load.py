"""From files to a Profile: reads a profile and its bases, merges them, remembers who said what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import NotFound, UsageError, nearest
from ...core.site_profile import Detect, HostMpi, NodeKind, Profile, Requirement, Rules, Source
from ..config import check_table, read_toml
from . import profile_files, schema

# About the file, or about this project, and not about the site.
WITHOUT_SOURCE = ("base", "title", "rendered", "sources")
Table = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One file of a profile: where it lies and what it says, checked."""

    path: Path
    table: Table


def profile(name: str, env: Mapping[str, str], chosen: str = "") -> Profile:
    """Return a profile by its name.

    Raises NotFound for a name without a file, UsageError for a faulty file or a loop of bases.
    """
    known = profile_files.found(env)
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
    wrong = schema.faults(table)
    if wrong:
        raise UsageError(f"{profile_files.shown(path)}: {wrong[0]}", "\n".join(wrong[1:]))
    return table


def _base(part: Part, env: Mapping[str, str]) -> Path | None:
    """A profile may name its own name: the one that it hides."""
    name = part.table.get("base")
    if name is None:
        return None
    own = name == part.path.stem
    path = profile_files.behind(name, part.path, env) if own else profile_files.found(env).get(name)
    if path is None:
        known = sorted(set(profile_files.found(env)) - {part.path.stem})
        raise UsageError(
            f"{profile_files.shown(part.path)}: base = {name!r} is no profile", nearest(name, known)
        )
    return path


def _loop(paths: list[Path]) -> UsageError:
    begin = paths.index(paths[-1])
    way = " -> ".join(path.stem for path in paths[begin:])
    names = "\n".join(profile_files.shown(path) for path in paths[begin:-1])
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
            origins[key] = profile_files.shown(part.path)
            sources.pop(key, None)
            source = source_of(key, part.table.get("sources", {}))
            if source:
                sources[key] = source
    return _profile(name, table(chain), sources, origins, chosen)


def _profile(
    name: str, whole: Table, sources: dict[str, Source], origins: dict[str, str], chosen: str
) -> Profile:
    get = whole.get
    host_mpi = get("host_mpi")
    return Profile(
        name=name,
        title=get("title", ""),
        scheduler=get("scheduler", ""),
        runtimes=tuple(get("runtimes", ())),
        launch=check_table(f"site {name}", get("launch", {})).values,
        env=get("env", {}),
        detect=Detect(**_frozen(get("detect", {}))),
        rules=_rules(get("rules", {})),
        nodes=tuple(NodeKind(kind, **facts) for kind, facts in get("nodes", {}).items()),
        host_mpi=HostMpi(**_frozen(host_mpi)) if host_mpi else None,
        login=get("login", ""),
        paths=get("paths", {}),
        runtime_args=_frozen(get("runtime_args", {})),
        module_use=tuple(get("module_use", ())),
        gpu_order=get("gpu_order", ""),
        rendered=tuple(get("rendered", ())),
        sources=sources,
        files=origins,
        chosen=chosen,
    )


def _rules(table: Table) -> Rules:
    required = table.get("require", {})
    require = {name: Requirement(**facts) for name, facts in required.items()}
    return Rules(**{**_frozen(table), "require": require})


def _frozen(table: Table) -> Table:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
