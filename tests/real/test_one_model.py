"""No wrong training ends green: ranks whose weights differ end the job with 95, right ones do not.

Most trainings are two ranks of one container, started by the shim itself; some are whole launches.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import IMAGE, Done, Login

SCRIPTS = Path(__file__).parent / "worlds"
FOLLOWED = ("--nodes", "2", "--follow", "--all")


@pytest.fixture
def place(login: Login) -> Login:
    """A folder with the trainings and the shim."""
    for name in ("trainings.py", "trainings_tf.py"):
        login.write(name, (SCRIPTS / name).read_text(encoding="utf-8"))
    login.sh("cp -r /opt/kit/runners/injob injob")
    return login


def two_ranks(place: Login, controller: str, *names: str, script: str = "trainings.py") -> Done:
    """Make trainings one after another, as two ranks in one container."""
    shim = ["python3", "injob", "rank", "--tasks", "2", "--controller", controller]
    command = ["apptainer", "exec", "--bind", "/scratch", IMAGE, *shim, "--run-dir", "run"]
    place.sh("rm -rf run; mkdir run")
    return place.run(*command, "--", script, *names)


def verdict(place: Login) -> dict[str, object]:
    value: dict[str, object] = json.loads(place.sh("cat run/weights.json"))
    return value


WRONG = {
    "around_ddp": (
        "none",
        "0.weight",
        "the forward pass goes around DDP",
        "call the wrapped model",
    ),
    "in_no_sync": ("none", "0.weight", "inside no_sync()", "leave no_sync()"),
    "group_of_one": ("none", "0.weight", "a process group of one rank", "without process_group"),
    "layer_outside_ddp": ("none", "1.weight", "not in the model that DDP wraps", "DistributedData"),
    "without_prepare": ("none", "0.weight", "not prepared by accelerate", "accelerator.prepare("),
    "no_broadcast": ("gloo", "0.weight", "nothing broadcasts rank 0's", "broadcast_parameters("),
    "layer_outside_horovod": ("gloo", "weight", "that Horovod averages for", "pass all parameters"),
    "horovod_not_wrapped": ("gloo", "0.weight", "the optimizer is not wrapped", "Distributed"),
    "by_mpi4py": ("mpi", "0.weight", "mpi4py formed the world", "init_process_group()"),
}


@pytest.mark.parametrize("name", WRONG)
def test_different_models_end_with_95_and_what_to_change(place: Login, name: str) -> None:
    controller, parameter, cause, remedy = WRONG[name]
    done = two_ranks(place, controller, name)
    assert done.returncode == 95, done.stdout + done.stderr
    assert "runner: one world of 2 ranks" in done.stdout
    assert f"{parameter} differs" in done.stdout
    assert cause in done.stdout
    assert remedy in done.stdout.partition("try: ")[2]
    assert verdict(place)["result"] == "different"


@pytest.mark.parametrize("name", ["keras_3_not_wrapped", "keras_2_not_wrapped", "tape_not_wrapped"])
def test_different_models_of_keras_end_with_95(place: Login, name: str) -> None:
    done = two_ranks(place, "gloo", name, script="trainings_tf.py")
    assert done.returncode == 95, done.stdout + done.stderr
    assert re.search("kernel(:0)? differs", done.stdout)
    assert "neither optimizer nor tape is wrapped" in done.stdout


@pytest.mark.parametrize("name", ["tape", "keras_2"])
def test_equal_models_of_keras(place: Login, name: str) -> None:
    done = two_ranks(place, "gloo", name, script="trainings_tf.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runner: weights equal on all ranks (after " in done.stdout


EQUAL = ("ddp", "accumulates", "two_optimizers", "zero_redundancy", "frozen_and_averaged_copy")
RIGHT = {
    "one after another": ("none", (*EQUAL, "many_steps"), "equal"),
    "averaged every 8 steps": ("none", ("local_sgd",), "not-checked"),
    "Horovod": ("gloo", ("horovod_right", "passes_per_step"), "equal"),
    "Adasum": ("mpi", ("adasum",), "equal"),
    "ends the world": ("none", ("ends_the_world",), "equal"),
    "leaves at once": ("none", ("leaves_at_once",), "equal"),
    "a checkpoint on rank 0": ("none", ("best_on_rank_0",), "equal"),
    "sharded": ("none", ("fsdp_1", "fsdp_2", "tensor_parallel"), "not-checked"),
    "flat partitions": ("none", ("flat_partitions",), "not-checked"),
    "other lengths": ("none", ("different_lengths",), "equal"),
    "the same data": ("none", ("same_data",), "copies"),
    "inference": ("none", ("ends_the_world", "inference"), "equal"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_trainings_are_no_alarm(place: Login, name: str) -> None:
    controller, names, result = RIGHT[name]
    done = two_ranks(place, controller, *names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict(place)["result"] == result, done.stdout
    last = done.stdout.splitlines()[-1]
    assert ("weights not checked: " if result == "not-checked" else "weights") in last or (
        result == "copies" and "copies of one training" in last
    )


def test_a_wrapper_that_was_forgotten_is_told_by_a_launch(place: Login) -> None:
    done = place.launch(*FOLLOWED, "trainings.py", "--", "not_wrapped")
    assert done.returncode == 95, done.stdout + done.stderr
    assert "the model is not wrapped: no gradients are averaged" in done.stderr
    assert "fix:           model = DistributedDataParallel(model)" in done.stderr
    assert "weights" in place.runner("status", "trainings-1").stdout
    without = place.launch(*FOLLOWED, "--no-gate", "trainings.py", "--", "not_wrapped")
    assert without.returncode == 0, without.stdout + without.stderr
    assert "runner: weights" not in without.stdout


def test_the_result_of_a_trainer_says_that_its_weights_were_equal(place: Login) -> None:
    done = place.launch(*FOLLOWED, "torch_mnist", "--", "--epochs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runner: weights equal on all ranks (after " in done.stdout
    assert place.result()["weights"]["result"] == "equal"
