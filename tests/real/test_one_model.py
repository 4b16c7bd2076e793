"""No wrong training ends green: ranks whose weights differ end the job with 95, right ones do not.

Most trainings are two ranks of one container, started by the shim itself; some are whole launches.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import UNPACKED, Done, Login, ended, succeeded

pytestmark = pytest.mark.unpacked

SCRIPTS = Path(__file__).parent / "worlds"
TORCH, KERAS = "trainings.py", "trainings_tf.py"
FOLLOWED = ("--nodes", "2", "--follow", "--all")


@pytest.fixture
def place(login: Login) -> Login:
    """A folder with the trainings and the shim."""
    login.write_all(SCRIPTS / name for name in (TORCH, KERAS))
    login.sh("cp -r /opt/kit/runners/injob injob; cp -r /opt/kit/runners/contract injob")
    return login


def two_ranks(place: Login, controller: str, *trainer: str, image: str = UNPACKED) -> Done:
    """Run a trainer as two ranks in one container; `controller` "tf" sets TF_CONFIG."""
    how = ["none", "--tf-config"] if controller == "tf" else [controller]
    shim = ["python3", "injob", "rank", "--tasks", "2", "--controller", *how]
    command = ["apptainer", "exec", "--bind", "/scratch", image, *shim, "--run-dir", "run"]
    place.sh("rm -rf run; mkdir run")
    return place.run(*command, "--", *trainer, timeout=600)


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
    done = ended(two_ranks(place, controller, TORCH, name), 95)
    assert "runner: one world of 2 ranks" in done.stdout
    assert f"{parameter} differs" in done.stdout
    assert cause in done.stdout
    assert remedy in done.stdout.partition("try: ")[2]
    assert verdict(place)["result"] == "different"


NOT_WRAPPED = "neither optimizer nor tape is wrapped"
WRONG_KERAS = {
    "keras_3_not_wrapped": ("gloo", NOT_WRAPPED),
    "keras_2_not_wrapped": ("gloo", NOT_WRAPPED),
    "tape_not_wrapped": ("gloo", NOT_WRAPPED),
    "outside_the_scope": ("tf", "the model was made outside of the strategy"),
}


@pytest.mark.parametrize("name", WRONG_KERAS)
def test_different_models_of_keras_end_with_95(place: Login, name: str) -> None:
    controller, cause = WRONG_KERAS[name]
    done = ended(two_ranks(place, controller, KERAS, name), 95)
    assert re.search("kernel(:0)? differs", done.stdout)
    assert cause in done.stdout


RIGHT_KERAS = {
    "tape": ("gloo", "equal on all ranks (after "),
    "keras_2": ("gloo", "equal on all ranks (after "),
    "mirrored": ("tf", "equal on all ranks (after "),
    "keras_2_mirrored": ("tf", "equal on all ranks (after "),
    "local_source": ("gloo", "not checked: a tape has variables that are local to a rank"),
    "local_variable": ("gloo", "not checked: variables are local to a rank"),
    "keras_2_local_variable": ("gloo", "not checked: variables are local to a rank"),
}


# Each of the others has another's kind of variables, or its Keras.
OFTEN = ("tape", "keras_2", "mirrored", "local_variable")


@pytest.mark.parametrize(
    "name",
    [
        *OFTEN,
        *(pytest.param(name, marks=pytest.mark.slow) for name in RIGHT_KERAS if name not in OFTEN),
    ],
)
def test_right_models_of_keras_are_no_alarm(place: Login, name: str) -> None:
    controller, words = RIGHT_KERAS[name]
    done = succeeded(two_ranks(place, controller, KERAS, name))
    assert f"runner: weights {words}" in done.stdout


EQUAL = (
    *("ddp", "accumulates", "two_optimizers", "zero_redundancy", "frozen_and_averaged_copy"),
    *("many_steps", "adapters", "different_lengths"),
    "best_on_rank_0",  # the last one: the ranks end with other weights than they trained
)
RIGHT = {
    "one after another": ("none", EQUAL, "equal"),
    "averaged every 8 steps": ("none", ("local_sgd",), "not-checked"),
    "Horovod": ("gloo", ("horovod_right", "passes_per_step"), "equal"),
    "leaves at once": ("none", ("leaves_at_once",), "equal"),
    "sharded": ("none", ("fsdp_1", "fsdp_2", "tensor_parallel"), "not-checked"),
    "flat partitions": ("none", ("flat_partitions",), "not-checked"),
    "the same data": ("none", ("same_data",), "copies"),
    "inference": ("none", ("ends_the_world", "inference"), "equal"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_trainings_are_no_alarm(place: Login, name: str) -> None:
    controller, names, result = RIGHT[name]
    done = succeeded(two_ranks(place, controller, TORCH, *names))
    assert verdict(place)["result"] == result, done.stdout
    before_use, _, _ = done.stdout.partition("runner: what the job used")
    last = "\n".join(before_use.splitlines()[-2:])  # a warning may follow
    assert ("runner: weights not checked: " if result == "not-checked" else "weights equal") in last
    assert ("copies of one training" in last) is (result == "copies")


SMALL = "--synthetic --model resnet20 --batch-size 2"
PACKAGED = {
    f"torch_resnet {SMALL} --timeline --profile 2-3": "gloo",
    "torch_finetune --lora": "gloo",
    "lightning_mnist": "gloo",
    "keras_mnist": "gloo",
    f"tf_resnet {SMALL}": "gloo",
    "tf_mnist --exchange mirrored": "tf",
}
# Other tests of the default lane train with these.
ALSO = {
    "torch_lm": "gloo",
    "torch_lm --exchange ddp --synthetic": "none",
    "torch_mnist --exchange ddp": "none",
    "tf_mnist": "mpi",
}


@pytest.mark.parametrize(
    "name", [*PACKAGED, *(pytest.param(name, marks=pytest.mark.slow) for name in ALSO)]
)
def test_packaged_trainers_have_equal_weights(place: Login, name: str) -> None:
    trainer, *words = name.split()
    command = ("-m", f"recipes.{trainer}", *words, "--max-steps", "6")
    done = succeeded(two_ranks(place, {**PACKAGED, **ALSO}[name], *command))
    assert "runner: weights equal on all ranks (after 6 steps)" in done.stdout


def test_a_wrapper_that_was_forgotten_is_told_by_a_launch(place: Login) -> None:
    done = place.launch(*FOLLOWED, "trainings.py", "--", "not_wrapped")
    assert done.returncode == 95, done.stdout + done.stderr
    assert "the model is not wrapped: no gradients are averaged" in done.stderr
    assert "fix:           model = DistributedDataParallel(model)" in done.stderr
    assert "weights" in place.runner("status", "trainings-1").stdout
    without = succeeded(place.launch(*FOLLOWED, "--no-gate", "trainings.py", "--", "not_wrapped"))
    assert "runner: weights" not in without.stdout
