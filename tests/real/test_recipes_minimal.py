"""The minimal trainers on two nodes: one world, a sensible loss, and a result that is followed."""

from __future__ import annotations

import json

import pytest

from .conftest import Login
from .places import BARE

pytestmark = pytest.mark.unpacked


@pytest.mark.parametrize("kind", ["torch", "ddp", "tensorflow", "keras"])
def test_a_copy_trains_in_one_world_and_leaves_its_result(login: Login, kind: str) -> None:
    name = f"minimal_{kind}"
    assert login.runner("recipes", "copy", name).returncode == 0
    done = login.launch("-N", "2", "--wait", f"./{name}.py", "--", "--epochs", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "each on its own" not in done.stderr
    assert "no result.json" not in done.stderr
    result = login.result()
    assert (result["world_size"], result["epoch"]) == (2, 8)
    assert result["loss"] < 0.5
    assert result["accuracy"] > 0.85
    listed = json.loads(login.runner("list", "--json").stdout)
    assert listed[0]["loss"] == pytest.approx(result["loss"])


def test_one_is_launched_by_its_name(login: Login) -> None:
    done = login.launch("-N", "2", "--wait", "minimal_torch", "--", "--epochs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert login.result()["arguments"]["epochs"] == 2


def test_a_trainer_without_a_result_is_told_what_is_missing(login: Login) -> None:
    trainer = login.write("own.py", f"{BARE}hvd.init()\nhvd.shutdown()\n")
    done = login.launch("-N", "2", "--wait", trainer)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no result.json in OUTPUT_DIR: write one" in done.stderr
    asked = login.runner("result")
    assert asked.returncode != 0
    assert "docs/start/own-trainer.md" in asked.stderr
