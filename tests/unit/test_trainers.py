"""What TRAINER stands for, and `runner recipes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runners.cli.info import recipes_command
from runners.core.errors import NotFound, UsageError
from runners.settings import trainers


def recipes(*words: str) -> Result:
    return CliRunner().invoke(recipes_command, words, catch_exceptions=False)


def test_recipes_are_listed_with_their_framework() -> None:
    listed = recipes().output.splitlines()
    assert listed[0].split()[:2] == ["name", "framework"]
    assert any(line.split()[:2] == ["torch_ddp_mnist", "pytorch"] for line in listed)
    assert json.loads(recipes("--json").output)["tf_mnist"]["framework"] == "tensorflow"


def test_a_recipe_is_copied_whole(tmp_path: Path) -> None:
    done = recipes("copy", "torch_mnist", str(tmp_path))
    assert f"runner launch --image IMAGE --nodes 2 {tmp_path}/torch_mnist.py" in done.output
    original = trainers.recipes_folder() / "torch_mnist.py"
    assert (tmp_path / "torch_mnist.py").read_bytes() == original.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["torch_mnist.py"]


def test_a_copy_that_was_edited_stays(tmp_path: Path) -> None:
    mine = tmp_path / "torch_mnist.py"
    mine.write_text("mine")
    with pytest.raises(UsageError, match="exists already") as caught:
        trainers.copy("torch_mnist", tmp_path, force=False)
    assert mine.read_text() == "mine"
    assert caught.value.remedy == f"runner recipes copy --force torch_mnist {tmp_path}"
    assert recipes(*caught.value.remedy.split()[2:]).exit_code == 0
    assert mine.read_text() != "mine"


def test_names_and_folders_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        trainers.copy("torch_mnst", tmp_path, force=False)
    assert "did you mean torch_mnist" in caught.value.evidence
    with pytest.raises(UsageError) as caught_folder:
        trainers.copy("torch_mnist", tmp_path / "a b", force=False)
    assert caught_folder.value.remedy == f"mkdir -p '{tmp_path}/a b'"


def test_a_file_tells_whether_it_needs_the_recipes(tmp_path: Path) -> None:
    copied = trainers.copy("torch_mnist", tmp_path, force=False)
    other = tmp_path / "other.py"
    other.write_text("print('from recipes, nothing')\nimport recipes_of_mine\n")
    assert trainers.find(str(copied), ())[0].uses_recipes
    assert not trainers.find(str(other), ())[0].uses_recipes
