"""The trainers' shared parts: what needs no framework."""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, BinaryIO, Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import recipes
from recipes import common, results, tokens
from recipes.common import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(recipes.__file__).parent
PRESETS = sorted(FOLDER.glob("*.toml"))
TRAINERS = [FOLDER / f"{path.stem}.py" for path in PRESETS]


class OneRank:
    """Stands for `horovod.torch` as seen by one rank; the other ranks' objects are given."""

    def __init__(self, rank: int = 0, others: tuple[Any, ...] = ()) -> None:
        self.number, self.others, self.is_down = rank, others, False

    def rank(self) -> int:
        return self.number

    def size(self) -> int:
        return 1 + len(self.others)

    def allgather_object(self, mine: Any, name: str) -> list[Any]:
        objects = list(self.others)
        objects.insert(self.number, mine)
        return objects

    def broadcast_object(self, mine: Any, root_rank: int, name: str) -> Any:
        return mine

    def shutdown(self) -> None:
        self.is_down = True

    def mpi_enabled(self) -> bool:
        return False

    def gloo_enabled(self) -> bool:
        return True


@pytest.fixture
def _catch_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave by an exception instead of ending the tests."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(common, "leave", leave)


def failing(message: str) -> Callable[[], int]:
    def action() -> int:
        raise UserError(message)

    return action


# Presets and sources


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_names_a_trainer_and_resources(path: Path) -> None:
    preset = tomllib.loads(path.read_text())
    assert set(preset) == {"description", "framework", "resources"}
    source = path.with_suffix(".py").read_text()
    module = {"pytorch": "horovod.torch", "tensorflow": "horovod.tensorflow"}[preset["framework"]]
    assert f"import {module} as hvd" in source
    assert preset["resources"]["cpus-per-task"] >= 1
    assert re.fullmatch(r"\d\d:\d\d:\d\d", preset["resources"]["time"])


def test_there_are_three_trainers() -> None:
    assert [path.stem for path in TRAINERS] == ["tf_mnist", "torch_lm", "torch_mnist"]


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
    assert f"horovodrun -np 2 python -m recipes.{name}" in header


def test_options_have_the_same_names_everywhere() -> None:
    texts = {path.stem: path.read_text() for path in TRAINERS}
    options = {name: set(re.findall(r'add\("(--[\w-]+)"', text)) for name, text in texts.items()}
    assert options["torch_mnist"] == options["tf_mnist"]
    assert options["torch_lm"] == options["tf_mnist"] - {"--data"}


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
    parser = common.Parser("some_trainer", "what it does")
    parser.add_argument("--epochs", type=common.positive_int)
    parser.add_argument("--rate", type=common.positive_float)
    with pytest.raises(UserError) as caught:
        parser.parse_args(words)
    assert str(caught.value) == f"{message}\nAll options: python -m recipes.some_trainer --help"


def test_zero_where_zero_is_allowed() -> None:
    assert (common.natural_int("0"), common.natural_float("0")) == (0, 0.0)
    with pytest.raises(argparse.ArgumentTypeError):
        common.natural_int("-1")


# One message for all ranks


def test_together_returns_the_value() -> None:
    assert common.together(OneRank(others=(("n2", None),)), lambda: 7) == 7


@pytest.mark.usefixtures("_catch_leaving")
def test_together_stops_a_healthy_rank_when_another_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hvd = OneRank(others=(("n2", ("the data folder /d does not exist", 2)),))
    with pytest.raises(SystemExit) as caught:
        common.together(hvd, lambda: 7)
    assert caught.value.code == 2
    assert hvd.is_down
    assert capsys.readouterr().err == "error: on rank 1@n2: the data folder /d does not exist\n"


@pytest.mark.usefixtures("_catch_leaving")
def test_only_rank_0_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    hvd = OneRank(rank=1, others=(("n1", ("bad", 2)),))
    with pytest.raises(SystemExit):
        common.together(hvd, failing("bad"))
    assert capsys.readouterr() == ("", "")


def test_failure_all_ranks_share_is_told_once() -> None:
    text = common.failure_text([("n1", ("bad", 2)), ("n2", ("bad", 2))])
    assert text == "error: bad"


def test_different_failures_are_all_told() -> None:
    found = [("n1", ("this", 2)), ("n2", None), ("n3", ("that", 2)), ("n4", ("this", 2))]
    text = common.failure_text(found)
    assert text == "error: on rank 0@n1, 3@n4: this\nerror: on rank 2@n3: that"


@pytest.mark.usefixtures("_catch_leaving")
def test_divergence_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        common.together(OneRank(), lambda: common.check_finite({"train_loss": math.nan}, 3, 0.5))
    assert caught.value.code == 1
    assert "train_loss is nan in epoch 3" in capsys.readouterr().err


# Threads


@pytest.mark.parametrize(
    ("asked", "mine", "machine", "expected"),
    [
        ("3", 8, 8, 3),  # what the user or the launcher says
        ("4,2", 8, 8, 4),  # nested parallelism: the outer level
        ("", 8, 8, 4),  # nobody bound the ranks: two of them share
        ("0", 8, 8, 4),
        ("", 4, 8, 4),  # bound to four
        ("", 1, 1, 1),
    ],
)
def test_threads(
    monkeypatch: pytest.MonkeyPatch, asked: str, mine: int, machine: int, expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(mine)))
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    assert common.threads(local_size=2) == expected


# Sharding

WORLDS = [(1797, 1), (1797, 2), (1797, 4), (10, 3), (10, 7), (2, 5), (1, 4), (64, 64)]


@pytest.mark.parametrize(("count", "size"), WORLDS)
def test_training_covers_all_samples_in_equally_many_steps(count: int, size: int) -> None:
    ranks = [common.Shards(count, rank, size, seed=1).batches(3) for rank in range(size)]
    assert len({tuple(map(len, batches)) for batches in ranks}) == 1
    seen = np.concatenate([np.concatenate(batches) for batches in ranks])
    assert set(seen) == set(range(count))
    assert len(seen) - count < size
    assert common.Shards(count, 0, size, seed=1).steps(3) == len(ranks[0])


def test_set_epoch_gives_another_order_and_the_same_again() -> None:
    shards = common.Shards(100, 0, 2, seed=1)
    first = shards.batches(10)
    shards.set_epoch(1)
    assert not np.array_equal(first, shards.batches(10))
    shards.set_epoch(0)
    assert np.array_equal(first, shards.batches(10))


@pytest.mark.parametrize(("count", "size"), WORLDS)
def test_evaluation_takes_each_sample_exactly_once(count: int, size: int) -> None:
    shares = [common.evaluation_share(count, rank, size) for rank in range(size)]
    assert sorted(np.concatenate(shares)) == list(range(count))


def test_chunks_of_nothing() -> None:
    assert common.chunks(common.evaluation_share(1, 3, 4), 10) == []


def test_means_weigh_by_samples() -> None:
    found = common.means([30.0, 60.0, 5.0, 9.0, 10.0])
    assert found == {"train_loss": 0.5, "test_loss": 0.5, "accuracy": 0.9}


# The learning rate


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0, 0.1), (1, 0.2), (1.5, 0.25), (3, 0.4), (50, 0.4)],
)
def test_rate_grows_to_that_of_all_ranks(progress: float, expected: float) -> None:
    assert common.learning_rate(0.1, 4, progress, warmup=3) == pytest.approx(expected)


def test_rate_of_one_rank_or_without_warmup() -> None:
    assert common.learning_rate(0.1, 1, 0, warmup=3) == pytest.approx(0.1)
    assert common.learning_rate(0.1, 4, 0, warmup=0) == pytest.approx(0.4)


# Weights


def test_digest_sees_one_bit_the_shape_and_the_type() -> None:
    weights = np.ones((2, 3), np.float32)
    other = weights.copy()
    other[1, 2] = np.nextafter(np.float32(1), np.float32(2))
    variants: list[NDArray[Any]] = [weights, other, weights.T, weights.astype(np.float64)]
    assert len({common.digest([each]) for each in variants}) == 4
    assert common.digest([weights]) == common.digest([weights.copy()])


def test_strays_are_named() -> None:
    common.assert_identical(["a", "a", "a"])
    with pytest.raises(RuntimeError, match=r"weights of rank 1, 3 differ .* \(of 4 ranks\)"):
        common.assert_identical(["a", "b", "a", "c"])


# Results


def run_of(folder: Path, hvd: OneRank | None = None) -> results.Run:
    args = Namespace(output=str(folder), log_interval=2, base_lr=0.1)
    return results.Run(args, hvd or OneRank(), "samples")


def epoch_done(run: results.Run, epoch: int, seconds: float) -> None:
    sums = [50.0, 100.0, 4.0, 9.0, 10.0]
    run.epoch_done(sums, epoch=epoch, step=epoch * 5, learning_rate=0.1, seconds=seconds)


def test_result_keeps_the_first_epoch_out_of_the_speed(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.step_done(1, 2.3)
    for epoch, seconds in [(1, 10.0), (2, 1.0), (3, 3.0)]:
        epoch_done(run, epoch, seconds)
    run.finish(["n1"], {"torch": "2"}, extra=7)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["samples_per_s"] == 50
    assert (result["first_epoch_seconds"], result["steady_epoch_seconds"]) == (10, 2)
    assert (result["accuracy"], result["loss"], result["steps"]) == (0.9, 0.4, 15)
    assert (result["world_size"], result["hosts"], result["controller"]) == (1, ["n1"], "gloo")
    assert result["startup_seconds"] > 0
    assert {"recipes", "python", "numpy", "torch"} == set(result["versions"])
    assert (result["arguments"]["base_lr"], result["extra"]) == (0.1, 7)


def test_one_epoch_has_no_steady_speed(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.step_done(1, 2.3)
    epoch_done(run, 1, 1.0)
    run.finish(["n1"], {})
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["samples_per_s"], result["steady_epoch_seconds"]) == (None, None)


def test_metrics_have_a_line_per_epoch(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    epoch_done(run, 1, 2.0)
    epoch_done(run, 2, 2.0)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    keys = "epoch step train_loss test_loss accuracy learning_rate seconds samples_per_s time"
    assert set(lines[0]) == set(keys.split())


def test_a_new_run_takes_away_the_old_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    run_of(tmp_path)
    assert not (tmp_path / "result.json").exists()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_other_ranks_write_and_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path / "out", OneRank(rank=1, others=(("n1", None),)))
    run.step_done(2, 2.3)
    epoch_done(run, 1, 1.0)
    run.checkpoint("x", lambda stream: stream.write(b"x"))
    run.finish(["n1", "n2"], {})
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out").exists()


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write to the output folder .*file/out: Not a dir"):
        run_of(tmp_path / "file" / "out")


def test_write_atomically_replaces_whole_files_only(tmp_path: Path) -> None:
    def half(stream: BinaryIO) -> None:
        stream.write(b"ha")
        raise OSError("disk full")

    path = tmp_path / "result.json"
    results.write_atomically(path, lambda stream: stream.write(b"old"))
    with pytest.raises(OSError, match="disk full"):
        results.write_atomically(path, half)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [
        ("result.json", b"old")
    ]


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
