"""lightning_mnist in the image: Lightning through Horovod, and through its own DDP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Login, ended, succeeded
from .test_recipes import ranks, train

pytestmark = [pytest.mark.slow, pytest.mark.unpacked]

# Rank 1 is asked to stop in the middle of the second epoch.
STOPPED = """
import os, signal
from recipes import agreement, run as it
from recipes.lightning_mnist import main
done, agreement.AGREE_SECONDS = it.Run.step_done, 0
def step_done(run, loss):
    done(run, loss)
    if run.step == 60 and run.ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
it.Run.step_done = step_done
main()
"""
NEWEST = "sha256sum < $(ls {0}/checkpoints/*.ckpt | tail -n 1)"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_digits_are_learned_with_any_number_of_ranks(login: Login, count: int) -> None:
    result = train(login, count, "lightning_mnist")
    assert result["accuracy"] >= 0.97
    assert (result["world_size"], result["exchange"]) == (count, "horovod")
    assert "lightning" in result["versions"]


def losses(login: Login, count: int, trainer: str, *words: str) -> list[float]:
    """Train as `count` ranks on 32 samples a step; return the loss of each epoch."""
    fixed = ["--epochs", "2", "--dropout", "0", "--warmup-epochs", "0"]
    fixed += ["--batch-size", str(32 // count), "--base-lr", str(0.04 / count)]
    train(login, count, trainer, *fixed, *words)
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in login.sh("cat out/metrics.jsonl").splitlines()
    ]
    return [line["loss"] for line in lines if line["event"] == "epoch"]


def test_the_loss_is_that_of_one_rank_whoever_exchanges(login: Login) -> None:
    one = losses(login, 1, "torch_mnist")
    assert one[0] > one[1]
    assert losses(login, 2, "lightning_mnist") == pytest.approx(one, rel=0.002)
    assert losses(login, 4, "lightning_mnist", "--exchange", "ddp") == pytest.approx(one, rel=0.002)


def test_the_strategy_reduces(login: Login) -> None:
    program = Path(__file__).with_name("lightning_reduces.py").read_text(encoding="utf-8")
    done = succeeded(ranks(login, 2, login.write("reduces.py", program)))
    # Without Horovod's optimizer the same samples lead each rank to weights of its own.
    assert done.stdout.strip() == "same: with adding-up adasum"


def test_stopped_within_an_epoch_it_goes_on_to_the_same_weights(login: Login) -> None:
    words = ["--epochs", "3", "--batch-size", "16"]
    train(login, 2, "lightning_mnist", *words)
    stopped = ended(ranks(login, 2, "-c", STOPPED, *words, "--output", "cut"), 91)
    assert "stopped on SIGTERM after step 61" in stopped.stdout
    done = ranks(
        login, 2, "-m", "recipes.lightning_mnist", *words, "--output", "cut", "--resume", "auto"
    )
    assert "resumed at step 61, epoch 2" in done.stdout, done.stderr
    assert login.sh(NEWEST.format("cut")) == login.sh(NEWEST.format("out"))


def test_an_option_of_horovods_is_not_for_ddp(login: Login) -> None:
    done = ranks(login, 2, "-m", "recipes.lightning_mnist", "--exchange", "ddp", "--adasum")
    assert done.returncode == 2
    assert done.stderr.count("--timeline are Horovod's: not with --exchange ddp") == 1
