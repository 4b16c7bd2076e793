"""Where profiles lie: the user's folder, the site's, and ours; the first that has a name wins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..config import user_file

SHIPPED = Path(__file__).parent
SITE_WIDE = "/etc/runner/sites"


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
