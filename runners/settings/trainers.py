"""Finds what TRAINER stands for: a packaged recipe, or a file of the user's."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from containers import atomic

from ..core.errors import NotFound, SystemFault, UsageError, nearest
from ..core.model import Trainer
from ..core.remedy import change, command
from . import config

# What a user starts a script with elsewhere: `python3 train.py`, `torchrun --nnodes 2 train.py`
STARTERS = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun")


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
        raise _unknown(name, args)
    preset = config.read_toml(path)
    layer = config.check_table(f"recipe {name}", preset.get("resources", {}))
    package = f"recipes.{MINIMAL}" if path.parent.name == MINIMAL else "recipes"
    module = f"{package}.{name}"
    return Trainer(name, module, None, args, preset.get("framework"), typed=name), layer


def _unknown(name: str, args: tuple[str, ...]) -> NotFound:
    """Return the error for a name that is no recipe's, perhaps that of what starts scripts."""
    what, script = f"there is no recipe named {name!r}", f"{name}.py"
    at = next((place for place, word in enumerate(args) if word.endswith(".py")), None)
    if at is not None and STARTERS.fullmatch(name):
        why = f"the trainer is the script itself: a launch starts {name} by itself, on each rank"
        return NotFound(what, why, change(trainer=args[at:]))
    there = change(trainer=(script, *args)) if Path(script).is_file() else ()
    return NotFound(what, nearest(name, _presets()), there)


def is_one(name: str) -> bool:
    """Whether a word names a recipe, or a script."""
    return name.endswith(".py") or name in _presets()


def _file(name: str, args: tuple[str, ...]) -> Trainer:
    path = Path(name)
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        near = nearest(path.name, [file.name for file in folder.glob("*.py")])
        raise NotFound(f"the trainer {name} does not exist", near)
    source = path.read_text(encoding="utf-8", errors="replace")
    uses_recipes = re.search(r"^\s*(from|import) recipes\b", source, re.MULTILINE) is not None
    return Trainer(path.stem, None, path.absolute(), args, uses_recipes=uses_recipes, typed=name)


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
        raise UsageError(f"{folder} is no folder", remedy=command("mkdir", "-p", folder))
    if target.exists() and not force:
        there = [] if folder == Path() else [folder]
        again = command("runner", "recipes", "copy", "--force", name, *there)
        raise UsageError(f"{target} exists already", remedy=again)
    try:
        with atomic.new_file(target) as part:
            part.write_bytes(original.read_bytes())
    except OSError as error:
        raise SystemFault(f"cannot write {target}: {error.strerror}") from error
    return target
