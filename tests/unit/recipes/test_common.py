"""The trainers' shared parts: what needs no framework."""

from __future__ import annotations

import ast
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import recipes
from recipes import options, ranks, tokens
from recipes.ranks import Failed, UserError

from .one_rank import one_rank

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(recipes.__file__).parent
PRESETS = sorted(FOLDER.glob("*.toml"))
TRAINERS = [FOLDER / f"{path.stem}.py" for path in PRESETS]


@pytest.fixture
def _catch_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave by an exception instead of ending the tests."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(ranks, "leave", leave)


# Presets and sources


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_names_a_trainer_and_resources(path: Path) -> None:
    preset = tomllib.loads(path.read_text())
    assert set(preset) - {"world"} == {"description", "framework", "resources"}
    source = path.with_suffix(".py").read_text()
    assert ("horovod.torch as hvd" in source or "horovod.tensorflow" in source) == (
        preset.get("world", "Horovod") == "Horovod"
    )
    module = {"pytorch": "torch", "tensorflow": "tensorflow"}[preset["framework"]]
    assert re.search(rf"^import {module}\b", source, re.MULTILINE)
    assert preset["resources"]["cpus-per-task"] >= 1
    assert re.fullmatch(r"\d\d:\d\d:\d\d", preset["resources"]["time"])


@pytest.mark.parametrize("path", TRAINERS, ids=lambda path: path.stem)
def test_every_distributed_statement_is_marked(path: Path) -> None:
    lines = path.read_text().splitlines()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("hvd."):
            near = lines[max(0, node.lineno - 7) : node.lineno]
            assert any("# Horovod:" in line for line in near), f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", TRAINERS, ids=lambda path: path.stem)
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


@pytest.mark.parametrize("path", TRAINERS, ids=lambda path: path.stem)
def test_a_trainer_stands_alone(path: Path) -> None:
    """It imports no other trainer, and one reader of data at most."""
    shared = {"options", "ranks", "saving", "run", "run_torch", "run_tf", "run_fsdp", "read_ahead"}
    shared |= {"lightning_horovod", "text_models"}
    readers = {"digits", "images", "tokens", "texts"}
    assert imports(path) <= shared | readers
    assert len(imports(path) & readers) == 1


@pytest.mark.parametrize("name", ["digits", "images", "tokens", "texts", "options", "device"])
def test_a_reader_imports_no_framework_and_nothing_of_a_run(name: str) -> None:
    path = FOLDER / f"{name}.py"
    assert imports(path) <= {"ranks"}
    assert not re.search(r"^(import|from) (torch|tensorflow|horovod)", path.read_text(), re.M)


def test_version_is_the_projects() -> None:
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    assert recipes.__version__ == project["version"]


# Settings


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "0"], "argument --epochs: must be at least 1, not 0"),
        (["--epochs", "two"], "argument --epochs: 'two' is not a whole number"),
        (["--epochs", "1.5"], "argument --epochs: '1.5' is not a whole number"),
        (["--rate", "-1"], "argument --rate: must be at least 0, not -1"),
        (["--rate", "1"], "argument --rate: must be less than 1, not 1"),
        (["--rate", "nan"], "argument --rate: must be at least 0, not nan"),
        (["--rate", "inf"], "argument --rate: must be at least 0, not inf"),
        (["--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["--epochs"], "argument --epochs: expected one argument"),
    ],
)
def test_bad_setting(words: list[str], message: str) -> None:
    parser = options.BareParser("some_trainer", "what it does")
    parser.add_argument("--epochs", type=options.at_least(1))
    parser.add_argument("--rate", type=options.at_least(0.0, below=1))
    with pytest.raises(UserError) as caught:
        parser.parse_args(words)
    assert str(caught.value) == f"{message}\nAll options: --help"


def test_an_option_that_is_needed_early_is_found_in_both_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for words, value in ((["--exchange", "ddp"], "ddp"), (["--exchange=fsdp"], "fsdp"), ([], "x")):
        monkeypatch.setattr(sys, "argv", ["trainer", "--epochs", "1", *words])
        assert options.option("--exchange", "x") == value


# One message for all ranks


def fail() -> int:
    raise UserError("bad")


def diverge() -> int:
    raise Failed("training diverged")


def test_together_returns_the_value() -> None:
    assert ranks.together(one_rank(others=((None, "n2", None),)), lambda: 7) == 7


@pytest.mark.usefixtures("_catch_leaving")
def test_together_stops_a_healthy_rank_when_another_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = one_rank(others=((None, "n2", ("the data folder /d does not exist", 2)),))
    with pytest.raises(SystemExit) as caught:
        ranks.together(world, lambda: 7)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: on rank 1@n2: the data folder /d does not exist\n"


@pytest.mark.usefixtures("_catch_leaving")
def test_only_rank_0_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ranks.together(one_rank(rank=1, others=((None, "n1", ("bad", 2)),)), fail)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("_catch_leaving")
def test_each_different_failure_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    others = ((None, "n2", None), (None, "n3", ("that", 1)), (None, "n4", ("bad", 2)))
    with pytest.raises(SystemExit) as caught:
        ranks.together(one_rank(others=others), fail)
    assert caught.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"error: on rank 0@\S+, 3@n4: bad", first)
    assert second == "error: on rank 2@n3: that"
    with pytest.raises(SystemExit):
        ranks.together(one_rank(size=2), fail)
    assert capsys.readouterr().err == "error: bad\n"


@pytest.mark.usefixtures("_catch_leaving")
def test_a_failed_training_has_its_own_exit_code() -> None:
    with pytest.raises(SystemExit) as caught:
        ranks.together(one_rank(), diverge)
    assert caught.value.code == 1


# The synthetic language


def test_floor_is_the_loss_of_one_who_knows_the_language() -> None:
    length = 33
    table, text = tokens.successors(), tokens.sample(4000, length, part=1)
    before, now = text[:, : -tokens.LAG], text[:, tokens.LAG :]
    chance = (table[before] == now[..., None]) @ np.array(tokens.CHANCES)
    first = (tokens.LAG - 1) * math.log(tokens.VOCABULARY)
    loss = (first + -np.log(chance).mean() * (length - tokens.LAG)) / (length - 1)
    assert loss == pytest.approx(tokens.floor(length), abs=0.01)


def test_text_is_reproducible_and_its_parts_differ() -> None:
    once, again = tokens.sample(4, 9, part=1), tokens.sample(4, 9, part=1)
    assert np.array_equal(once, again)
    assert not np.array_equal(once, tokens.sample(4, 9, part=2))
    assert once.min() >= 0
    assert once.max() < tokens.VOCABULARY
