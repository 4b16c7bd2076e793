"""The trainers in the image, with real frameworks, real ranks and real digits."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .conftest import UNPACKED, Done, Login, ended, succeeded

MNIST_TRAINERS = ["torch_mnist", "tf_mnist"]

# Writes scikit-learn's digits as the four files that MNIST comes in.
WRITE_IDX = """
import gzip, sys
from pathlib import Path
import numpy as np
from recipes.digits import IDX_NAMES, load
from sklearn.datasets import load_digits
digits, folder = load(None), Path(sys.argv[1])
theirs = load_digits()  # the trainers read its file without it
assert digits.y_train.sum() + digits.y_test.sum() == theirs.target.sum()
assert 16 * (digits.x_train.sum() + digits.x_test.sum()) == theirs.images.sum()
folder.mkdir()
for part, name in IDX_NAMES.items():
    array = getattr(digits, part)
    array = (array * 255 if part.startswith("x") else array).astype(np.uint8)
    numbers = [0x0800 + array.ndim, *array.shape]
    whole = b"".join(number.to_bytes(4, "big") for number in numbers) + array.tobytes()
    folder.joinpath(name + ".gz").write_bytes(gzip.compress(whole))
"""

# What a broadcast that fails would leave: weights that differ by rank.
SPOILT_BROADCAST = {
    "torch_mnist": """
import horovod.torch as hvd
def spoil(state, root_rank):
    for value in state.values():
        value += hvd.rank()
hvd.broadcast_parameters = spoil
""",
    "tf_mnist": """
import horovod.tensorflow as hvd
def spoil(variables, root_rank):
    for variable in variables:
        variable.assign_add(tf.cast(tf.fill(variable.shape, hvd.rank()), variable.dtype))
import tensorflow as tf
hvd.broadcast_variables = spoil
""",
}

# What the shim gives each rank beside Horovod's variables.
PLACE = """
export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
export LOCAL_RANK=$RANK LOCAL_WORLD_SIZE=$WORLD_SIZE MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
case "$*" in *mirrored*)
    workers=$(seq -f '"127.0.0.1:%.0f"' -s , 29501 $((29500 + WORLD_SIZE)))
    export TF_CONFIG='{"cluster": {"worker": ['$workers']},
                       "task": {"type": "worker", "index": '$RANK'}}' ;;
esac
exec python "$@"
"""


def ranks(login: Login, count: int, *argv: str) -> Done:
    """Run `python argv...` as `count` ranks in the image, on the login node."""
    mpirun = ["mpirun", "--oversubscribe", "-np", str(count), "sh", "-c", PLACE, "sh", *argv]
    return login.run("apptainer", "exec", UNPACKED, *mpirun, env={"OMP_NUM_THREADS": "1"})


def train(login: Login, count: int, trainer: str, *words: str) -> dict[str, Any]:
    """Train, and return result.json."""
    succeeded(ranks(login, count, "-m", f"recipes.{trainer}", *words))
    result: dict[str, Any] = json.loads(login.sh(f"cat {login.folder}/out/result.json"))
    return result


@pytest.mark.parametrize(
    ("trainer", "count"),
    [
        ("torch_mnist", 2),
        *(
            pytest.param(trainer, count, marks=pytest.mark.slow)
            for trainer in MNIST_TRAINERS
            for count in (1, 2, 4)
            if (trainer, count) != ("torch_mnist", 2)
        ),
    ],
)
def test_digits_are_learned_with_any_number_of_ranks(
    login: Login, trainer: str, count: int
) -> None:
    done = succeeded(ranks(login, count, "-m", f"recipes.{trainer}", "--log-interval", "10"))
    step = r"(?m)^  step 10/\d+  epoch 1  loss \d\.\d{4}  \d+ samples/s  \d:\d\d left$"
    assert re.search(step, done.stdout)
    result = json.loads(login.sh("cat out/result.json"))
    assert result["accuracy"] >= 0.97
    assert result["world_size"] == len(result["hosts"]) == count
    assert result["controller"] == "mpi"
    assert result["samples_per_s"] > 0
    assert result["first_step_unix_time"] > 0
    lines = login.sh(f'grep -c \'"event": "epoch"\' {login.folder}/out/metrics.jsonl')
    assert int(lines) == result["epochs"]


def test_language_model_comes_near_the_entropy_of_its_language(login: Login) -> None:
    """A smaller model than the preset's, with a shorter context, learns it too."""
    words = ["--width", "64", "--layers", "1", "--context", "32", "--epochs", "2"]
    result = train(login, 2, "torch_lm", *words)
    assert result["loss_floor"] < result["test_loss"] < result["loss_floor"] + 0.15
    assert result["tokens_per_s"] > 0


@pytest.mark.parametrize("trainer", MNIST_TRAINERS)
def test_mnist_in_idx_form_and_uneven_shards(login: Login, trainer: str) -> None:
    data = f"{login.folder}/mnist"
    succeeded(ranks(login, 1, "-c", WRITE_IDX, data))
    # Three ranks divide neither the 1,438 training nor the 359 test samples.
    result = train(login, 3, trainer, "--data", data, "--epochs", "6", "--fp16-allreduce")
    assert result["accuracy"] > 0.9
    assert round(result["accuracy"] * 359) / 359 == pytest.approx(result["accuracy"], abs=1e-12)


@pytest.mark.parametrize(
    "trainer", ["torch_mnist", pytest.param("tf_mnist", marks=pytest.mark.slow)]
)
def test_different_weights_are_found_and_named(login: Login, trainer: str) -> None:
    program = f"{SPOILT_BROADCAST[trainer]}\nfrom recipes.{trainer} import main; main()"
    done = ranks(login, 2, "-c", program, "--max-steps", "3")
    ended(done, 1, "the weights of rank 1 differ from those of rank 0 (of 2 ranks)")
    assert "result.json" not in login.sh(f"ls {login.folder}/out").split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--epochs", "0"],
            "error: argument --epochs: must be at least 1, not 0",
            marks=pytest.mark.slow,
        ),
        (["--data", "/nowhere"], "error: the data folder /nowhere does not exist"),
    ],
)
def test_a_users_mistake_is_told_once(login: Login, words: list[str], message: str) -> None:
    done = ended(ranks(login, 2, "-m", "recipes.torch_mnist", *words), 2)
    assert done.stderr.count(message) == 1
    assert "Traceback" not in done.stderr
    assert login.sh(f"ls {login.folder}") == ""
