"""The trainers' shared parts: what needs no framework."""

from __future__ import annotations

import argparse
import ast
import math
import re
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import recipes
from recipes import common, options, tokens
from recipes.common import UserError, abort, record
from recipes.common.weights import assert_identical

from .one_rank import OneRank

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

    monkeypatch.setattr(abort, "leave", leave)


def failing(message: str) -> Callable[[], int]:
    def action() -> int:
        raise UserError(message)

    return action


# Presets and sources


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_names_a_trainer_and_resources(path: Path) -> None:
    preset = tomllib.loads(path.read_text())
    assert set(preset) - {"world"} == {"description", "framework", "resources"}
    source = path.with_suffix(".py").read_text()
    # Lightning's trainer has an option for it, and says nothing.
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


@pytest.mark.parametrize("path", TRAINERS, ids=lambda path: path.stem)
def test_every_trainer_has_the_common_options(path: Path) -> None:
    text = path.read_text()
    assert "options.add_common(" in text or re.search(r"(resnet|lm)_options.parser\(", text)


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
        (["--rate", "0"], "argument --rate: must be more than 0"),
        (["--rate", "nan"], "argument --rate: must be at least 0, not nan"),
        (["--rate", "inf"], "argument --rate: must be at least 0, not inf"),
        (["--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["--epochs"], "argument --epochs: expected one argument"),
    ],
)
def test_bad_setting(words: list[str], message: str) -> None:
    parser = options.Parser("some_trainer", "what it does")
    parser.add_argument("--epochs", type=options.positive_int)
    parser.add_argument("--rate", type=options.positive_float)
    with pytest.raises(UserError) as caught:
        parser.parse_args(words)
    assert str(caught.value) == f"{message}\nAll options: python -m recipes.some_trainer --help"


def test_zero_where_zero_is_allowed() -> None:
    assert (options.natural_int("0"), options.natural_float("0")) == (0, 0.0)
    with pytest.raises(argparse.ArgumentTypeError):
        options.natural_int("-1")


# One message for all ranks


def test_together_returns_the_value() -> None:
    assert common.on_all_ranks(OneRank(others=(("n2", None),)), lambda: 7) == 7


@pytest.mark.usefixtures("_catch_leaving")
def test_together_stops_a_healthy_rank_when_another_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hvd = OneRank(others=(("n2", ("the data folder /d does not exist", 2)),))
    with pytest.raises(SystemExit) as caught:
        common.on_all_ranks(hvd, lambda: 7)
    assert caught.value.code == 2
    assert hvd.is_down
    assert capsys.readouterr().err == "error: on rank 1@n2: the data folder /d does not exist\n"


@pytest.mark.usefixtures("_catch_leaving")
def test_only_rank_0_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    hvd = OneRank(rank=1, others=(("n1", ("bad", 2)),))
    with pytest.raises(SystemExit):
        common.on_all_ranks(hvd, failing("bad"))
    assert capsys.readouterr() == ("", "")


def test_failure_all_ranks_share_is_told_once() -> None:
    text = abort.failure_text([("n1", ("bad", 2)), ("n2", ("bad", 2))])
    assert text == "error: bad"


def test_different_failures_are_all_told() -> None:
    found = [("n1", ("this", 2)), ("n2", None), ("n3", ("that", 2)), ("n4", ("this", 2))]
    text = abort.failure_text(found)
    assert text == "error: on rank 0@n1, 3@n4: this\nerror: on rank 2@n3: that"


@pytest.mark.usefixtures("_catch_leaving")
def test_divergence_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        common.on_all_ranks(
            OneRank(), lambda: record.check_finite({"loss": math.nan}, "epoch 3", 0.5)
        )
    assert caught.value.code == 1
    assert "loss is nan in epoch 3" in capsys.readouterr().err


# Weights


def test_digest_sees_one_bit_the_shape_and_the_type() -> None:
    weights = np.ones((2, 3), np.float32)
    other = weights.copy()
    other[1, 2] = np.nextafter(np.float32(1), np.float32(2))
    variants: list[NDArray[Any]] = [weights, other, weights.T, weights.astype(np.float64)]
    assert len({common.digest([each]) for each in variants}) == 4
    assert common.digest([weights]) == common.digest([weights.copy()])


def test_strays_are_named() -> None:
    assert_identical(["a", "a", "a"])
    with pytest.raises(RuntimeError, match=r"weights of rank 1, 3 differ .* \(of 4 ranks\)"):
        assert_identical(["a", "b", "a", "c"])


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
