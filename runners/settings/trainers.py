"""Finds what TRAINER stands for: a packaged recipe, or a file of the user's."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from ..core.errors import NotFound, SystemFault, UsageError, nearest
from ..core.model import Trainer
from . import config


def recipes_folder() -> Path:
    """Return the folder of the packaged recipes, found without importing them."""
    spec = importlib.util.find_spec("recipes")
    assert spec is not None  # installed together with this package
    assert spec.submodule_search_locations is not None  # and a package
    return Path(next(iter(spec.submodule_search_locations)))


MINIMAL = "minimal"


def presets() -> dict[str, dict[str, Any]]:
    """Return every recipe's preset by name: kind, description, framework and resources."""
    return {
        name: {"kind": MINIMAL if path.parent.name == MINIMAL else "full", **config.read_toml(path)}
        for name, path in _presets().items()
    }


def source(name: str) -> Path | None:
    """Return the file of a packaged recipe; None for a name that stands for none."""
    found = _presets().get(name)
    return found and found.with_suffix(".py")


def _presets() -> dict[str, Path]:
    folder = recipes_folder()
    paths = [*sorted(folder.glob("*.toml")), *sorted((folder / MINIMAL).glob("*.toml"))]
    return {path.stem: path for path in paths}


def find(name: str, args: tuple[str, ...]) -> tuple[Trainer, config.Layer | None]:
    """Return the trainer and its preset as a layer of settings.

    Raises NotFound, with the nearest names, when there is neither such a recipe nor such a file.
    """
    if name.endswith(".py") or "/" in name:
        return _file(name, args), None
    path = _presets().get(name)
    if path is None:
        file = f"{name}.py" if Path(f"{name}.py").is_file() else ""
        raise NotFound(f"there is no recipe named {name!r}", nearest(name, _presets()), file)
    preset = config.read_toml(path)
    checked = config.check_table(f"recipe {name}", preset.get("resources", {}))
    layer = replace(checked, preset=True)
    package = f"recipes.{MINIMAL}" if path.parent.name == MINIMAL else "recipes"
    return Trainer(name, f"{package}.{name}", None, args, preset.get("framework")), layer


def _file(name: str, args: tuple[str, ...]) -> Trainer:
    path = Path(name)
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        near = nearest(path.name, [file.name for file in folder.glob("*.py")])
        raise NotFound(f"the trainer {name} does not exist", near)
    source = path.read_text(encoding="utf-8", errors="replace")
    uses_recipes = re.search(r"^\s*(from|import) recipes\b", source, re.MULTILINE) is not None
    return Trainer(path.stem, None, path.absolute(), args, uses_recipes=uses_recipes)


def copy(name: str, folder: Path, *, force: bool) -> Path:
    """Write a recipe's file into `folder`, for the user to edit; return its path.

    What it imports from `recipes` stays there. Raises NotFound for a name that stands for none,
    UsageError if the file or no folder is there, SystemFault if it cannot be written.
    """
    original = source(name)
    if original is None:
        raise NotFound(f"there is no recipe named {name!r}", nearest(name, _presets()))
    target = folder / f"{name}.py"
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", remedy=f"mkdir -p {quote(str(folder))}")
    if target.exists() and not force:
        again = "" if folder == Path() else f" {quote(str(folder))}"
        raise UsageError(
            f"{target} exists already", remedy=f"runner recipes copy --force {name}{again}"
        )
    part = folder / f".{name}.py.part"
    try:
        part.write_bytes(original.read_bytes())
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SystemFault(f"cannot write {target}: {error.strerror}") from error
    return target
