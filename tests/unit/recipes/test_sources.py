"""Presets and sources of the packaged trainers, as they are written."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import recipes
import runners

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(recipes.__file__).parent
PRESETS = sorted(FOLDER.glob("*.toml"))
RECIPES = [FOLDER / f"{path.stem}.py" for path in PRESETS]
TRAINERS = [path for path in RECIPES if path.stem not in ("tokenize", "torch_predict")]


@pytest.mark.parametrize("path", PRESETS)
def test_preset_names_a_trainer_and_resources(path: Path) -> None:
    preset = tomllib.loads(path.read_text())
    assert set(preset) == {"description", "framework", "world", "resources"}
    source = path.with_suffix(".py").read_text()
    assert ("horovod.torch as hvd" in source or "horovod.tensorflow" in source) == (
        preset["world"] == "Horovod"
    )
    modules = {"pytorch": ["torch"], "tensorflow": ["tensorflow"], "none": []}
    imported = re.findall(r"^import (torch|tensorflow)\b", source, re.MULTILINE)
    assert imported == modules[preset["framework"]]
    assert preset["resources"]["cpus-per-task"] >= 1
    assert re.fullmatch(r"\d\d:\d\d:\d\d", preset["resources"]["time"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_distributed_statement_is_marked(path: Path) -> None:
    lines = path.read_text().splitlines()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("hvd."):
            near = lines[max(0, node.lineno - 7) : node.lineno]
            assert any("# Horovod:" in line for line in near), f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", TRAINERS)
def test_header_has_the_commands(path: Path) -> None:
    header = ast.get_docstring(ast.parse(path.read_text())) or ""
    name = path.stem
    assert f"runner launch --image horovod_cpu.sif --nodes 2 {name} -- --epochs 5" in header
    of_framework = f"torchrun --nproc-per-node 2 -m recipes.{name}", "TF_CONFIG"
    by_hand = (f"horovodrun -np 2 python -m recipes.{name}", *of_framework)
    assert any(way in header for way in by_hand)


def imports(path: Path) -> set[str]:
    """Return the modules of the package that a file imports."""
    nodes = ast.walk(ast.parse(path.read_text()))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    whole = {alias.name for node in froms if node.module == "recipes" for alias in node.names}
    parts = {
        (node.module or "").partition(".")[2] for node in froms if "recipes." in (node.module or "")
    }
    return whole | parts


@pytest.mark.parametrize("path", TRAINERS)
def test_a_trainer_stands_alone(path: Path) -> None:
    """It imports no other trainer, and one reader of data."""
    shared = {"options", "distributed", "results", "run", "run_torch", "run_tf", "run_fsdp"}
    shared |= {"read_ahead", "lightning_horovod", "mirrored", "text_models"}
    readers = {"digits", "images", "tokens", "texts"}
    assert imports(path) <= shared | readers
    assert len(imports(path) & readers) == 1


@pytest.mark.parametrize("name", ["digits", "images", "tokens", "texts", "options", "device"])
def test_a_reader_imports_no_framework_and_nothing_of_a_run(name: str) -> None:
    path = FOLDER / f"{name}.py"
    assert imports(path) <= {"distributed"}
    assert not re.search(r"^(import|from) (torch|tensorflow|horovod)", path.read_text(), re.M)


def test_version_is_the_projects() -> None:
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    assert recipes.__version__ == runners.__version__ == project["version"]
