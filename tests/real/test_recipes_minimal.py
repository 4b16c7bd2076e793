"""The minimal trainers on two nodes: one world, a sensible loss, and a result that is followed."""

from __future__ import annotations

import pytest

from .conftest import Login, ended, succeeded
from .places import BARE

pytestmark = pytest.mark.unpacked


@pytest.mark.parametrize("kind", ["torch", "ddp", "tensorflow", "keras"])
def test_one_trains_in_one_world_and_leaves_its_result(login: Login, kind: str) -> None:
    """A copy; PyTorch's DDP by its name."""
    name = f"minimal_{kind}"
    if kind != "ddp":
        assert login.runner("recipes", "copy", name).returncode == 0
        name = f"./{name}.py"
    done = succeeded(login.launch("-N", "2", "--wait", name, "--", "--epochs", "8"))
    assert "each on its own" not in done.stderr
    assert "no result.json" not in done.stderr
    result = login.told("result")
    assert (result["world_size"], result["epoch"]) == (2, 8)
    assert result["arguments"]["epochs"] == 8
    assert result["loss"] < 0.5
    assert result["accuracy"] > 0.85
    saved = "checkpoint.pt" if kind in ("torch", "ddp") else "checkpoint.weights.h5"
    written = login.sh("ls runs/*").split()
    assert saved in written
    assert not [name for name in written if "part" in name]
    listed = login.told("list")
    assert listed[0]["loss"] == pytest.approx(result["loss"])


def test_a_trainer_without_a_result_is_told_what_is_missing(login: Login) -> None:
    trainer = login.write("own.py", f"{BARE}hvd.init()\nhvd.shutdown()\n")
    ended(login.launch("-N", "2", "--wait", trainer), 0, "no result.json in OUTPUT_DIR: write one")
    asked = login.runner("result")
    assert asked.returncode != 0
    assert "docs/start/own-trainer.md" in asked.stderr
