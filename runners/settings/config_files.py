"""Files of settings: the user's and the project's runner.toml, and TOML that others may write."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core import places, trust
from ..core.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_FILE = "runner.toml"
TABLES = ("launch", "datasets", "images")


def user_file(env: Mapping[str, str]) -> Path:
    return places.user_settings(env) / PROJECT_FILE


def read_trusted(
    path: Path, env: Mapping[str, str] = os.environ, named: Path | None = None
) -> dict[str, Any]:
    """Parse a TOML file that nobody named on the command line; raise as `read_toml`.

    Raises UsageError too where other users could have written it (`trust.read`).
    """
    return read_toml(path, lambda: trust.read(path, env, named))


def read_toml(path: Path, read: Callable[[], bytes] | None = None) -> dict[str, Any]:
    """Parse a TOML file; raise UsageError with the parser's words, or when it cannot be read."""
    try:
        table: dict[str, Any] = tomllib.loads((read or path.read_bytes)().decode("utf-8"))
        return table
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # [[[[[[[[[[ ...
        raise UsageError(f"{path} is not valid TOML", str(error), id="toml-malformed") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}", str(error), id="toml-unreadable") from None


def tables(
    env: Mapping[str, str], name: str, strict: bool = True
) -> list[tuple[str, dict[str, Any]]]:
    """Return a table of the user's file and of the project's, each with the file's name.

    Raises UsageError for a file with anything beside TABLES, and `strict` for one of other users.
    """
    mine, project = user_file(env), Path(PROJECT_FILE)
    contents = {mine: read_toml(mine)} if mine.is_file() else {}
    if os.path.lexists(project):
        try:
            contents[project] = read_trusted(project, env)
        except trust.Untrusted as error:
            if strict:
                raise
            warnings.warn(str(error).replace(": ", " is not read: ", 1), stacklevel=2)
    parsed = [
        (str(path), _tables_of(path, content).get(name)) for path, content in contents.items()
    ]
    return [(path, table) for path, table in parsed if table is not None]


def _tables_of(path: Path, content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    for key, table in content.items():
        if key not in TABLES or not isinstance(table, dict):
            raise UsageError(
                f"{path} has the unknown key {key!r}",
                "settings stand in the table [launch], their source "
                "in [images], datasets in [datasets.NAME]",
                id="toml-key-unknown",
            )
    return content
