"""Copies a packaged recipe, for the user to edit, with the modules that it imports."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from ..contract.enums import ProcessGroup
from ..core import atomic, disk_space
from ..core.errors import UsageError
from ..core.remedy import command
from .trainers import PACKAGE, RECIPES, packaged, presets

# What a recipe imports of ours: `from recipes import a, b` and `from recipes.c import d`.
IMPORTS = re.compile(r"^from recipes(?: import ([\w, ]+)|\.(\w+) import)", re.MULTILINE)


def example(name: str, trainer: str = "") -> str:
    """Return the command that launches a recipe, or a copy of it: `trainer`."""
    alone = presets()[name]["world"] == ProcessGroup.NONE
    return f"runner launch --image IMAGE {'' if alone else '--nodes 2 '}{trainer or name}"


def copy(name: str, folder: Path, *, force: bool) -> list[Path]:
    """Write a recipe's file into `folder`, for the user to edit; return what was written.

    The modules that it imports go into `folder/recipes`, so that its imports work as they are.
    Raises NotFound for a name that stands for none, UsageError if another file or no folder is
    there, SystemFault if it cannot be written.
    """
    original = packaged(name)
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder",
            remedy=command("mkdir", "-p", folder),
            id="copy-folder-missing",
        )
    files = {folder / f"{_copied(name)}.py": original}
    files |= {folder / PACKAGE / module.name: module for module in shared_modules(original)}
    for target, original in files.items():
        if not force and target.exists() and target.read_bytes() != original.read_bytes():
            folders = [] if folder == Path() else [folder]
            again = command("runner", "recipes", "copy", "--force", name, *folders)
            raise UsageError(
                f"{target} exists already, with other content", remedy=again, id="copy-exists"
            )
    for target, original in files.items():
        with disk_space.writing(target):
            target.parent.mkdir(exist_ok=True)
            atomic.write_text(target, original.read_text(encoding="utf-8"))
    return list(files)


def _copied(name: str) -> str:
    """Return the name of a copy: one of Python's own would be hidden from all in its folder."""
    return f"my_{name}" if importlib.util.find_spec(name) else name


def shared_modules(path: Path) -> list[Path]:
    """Return the modules of the package that a recipe's file imports, directly or not."""
    names, left = {"__init__"}, [path]
    while left:
        imports = IMPORTS.findall(left.pop().read_text(encoding="utf-8"))
        new = {
            word for listed, single in imports for word in (single or listed).split(", ")
        } - names
        names |= new
        left += [RECIPES / f"{name}.py" for name in new]
    return [] if names == {"__init__"} else [RECIPES / f"{name}.py" for name in sorted(names)]
