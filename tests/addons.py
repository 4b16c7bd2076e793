"""The add-ons of this checkout, found by `runner` as if pip had installed them.

The environments of the tests are shared by checkouts, so nothing of a checkout is installed there.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .documents import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDERS = sorted(path.parent for path in ROOT.glob("addons/*/pyproject.toml"))
GROUP = "horovod_runner.commands"


def write_metadata(
    folder: Path, name: str, commands: Mapping[str, str], version: str = "1", summary: str = ""
) -> None:
    """Write what pip writes of an installed distribution, as far as `runner` reads it."""
    own = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    own.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    (own / "METADATA").write_text(head, encoding="utf-8")
    rows = [f"{command} = {place}\n" for command, place in commands.items()]
    (own / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(rows)}", encoding="utf-8")


@functools.cache
def _metadata() -> tempfile.TemporaryDirectory[str]:
    """Write the metadata of all, into a folder that is removed at this process's end."""
    made = tempfile.TemporaryDirectory(prefix="addons-")
    for folder in FOLDERS:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        commands = project["entry-points"][GROUP]
        words = project["name"], commands, project["version"], project["description"]
        write_metadata(Path(made.name), *words)
    return made


def paths() -> list[str]:
    """Return the folders of sys.path by which another Python finds the add-ons."""
    return [_metadata().name, *map(str, FOLDERS)]


def show() -> None:
    """Let this process find them."""
    sys.path += [path for path in paths() if path not in sys.path]
