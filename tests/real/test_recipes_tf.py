"""The TensorFlow trainers in the image: curves, stopping, Keras, ResNets, faults."""

from __future__ import annotations

import json

import pytest

from .conftest import Login, ended, succeeded
from .test_recipes import ranks, train
from .test_recipes_torch import NEARLY_ALL, PLAIN, SPOIL, curve, same, synthetic

pytestmark = [pytest.mark.slow, pytest.mark.unpacked]

# Rank 1 alone is asked to stop, within an epoch and within the warm-up.
STOP_IN_STEP_40 = """
import os, signal
from recipes import agreement, keras_mnist, run as it
plain, agreement.AGREE_SECONDS = it.Run.step_done, 0
def step_done(run, loss):
    plain(run, loss)
    if run.step == 39 and run.ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
it.Run.step_done = step_done
keras_mnist.main()
"""

# The same of tf_mnist with the mirrored strategy, in its second epoch.
STOP_MIRRORED = """
import os, signal
from recipes import agreement, run as it, tf_mnist
plain, agreement.AGREE_SECONDS = it.Run.step_done, 0
def step_done(run, loss):
    plain(run, loss)
    if run.step == 5 and run.ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
it.Run.step_done = step_done
tf_mnist.main()
"""


MIRRORED = ["--exchange", "mirrored"]


def weights(login: Login) -> list[str]:
    """Return the checksums of the checkpoints, by step."""
    return login.sh(f"cd {login.folder}/out/checkpoints; sha256sum *.ckpt").split()


def test_curves_are_those_of_one_rank(login: Login) -> None:
    def digits(count: int, *words: str, passes: int = 1) -> list[tuple[float, ...]]:
        ways = count * passes
        share = ["--batch-size", str(NEARLY_ALL // ways), "--base-lr", str(0.01 / ways)]
        return curve(login, count, "tf_mnist", *PLAIN, *share, *words)

    alone = digits(1)
    assert alone[-1][0] < alone[0][0]
    assert same(alone, digits(2, "--batches-per-allreduce", "2", passes=2))
    assert same(alone, digits(4))


def mirrored(login: Login, count: int, *words: str) -> list[tuple[float, ...]]:
    """Train on 360 samples a step."""
    share = ["--batch-size", str(360 // count), "--base-lr", str(0.02 / count)]
    return curve(login, count, "tf_mnist", *PLAIN, *MIRRORED, *share, *words)


def test_curves_of_the_mirrored_strategy_are_those_of_horovod(login: Login) -> None:
    words = ["--batch-size", "360", "--base-lr", "0.02"]
    alone = curve(login, 1, "tf_mnist", *PLAIN, *words)
    assert same(alone, mirrored(login, 1))
    assert same(alone, mirrored(login, 2))
    result = json.loads(login.sh(f"cat {login.folder}/out/result.json"))
    assert (result["exchange"], result["world_size"]) == ("mirrored", 2)
    assert result["samples_per_s"] > 0


def test_a_mirrored_run_is_stopped_and_goes_on_with_another_number_of_ranks(login: Login) -> None:
    whole = mirrored(login, 2)
    login.sh(f"rm -r {login.folder}/out")
    share = ["--batch-size", "180", "--base-lr", "0.01"]
    program = login.write("recipes_tf_mirrored_stopped.py", STOP_MIRRORED)
    stopped = ended(ranks(login, 2, "-u", program, *PLAIN, *MIRRORED, *share), 91)
    assert stopped.stdout.count("stopped on SIGUSR1 after step 6; a checkpoint is saved") == 1
    assert same(whole, mirrored(login, 3, "--resume", "auto"))


def test_the_mirrored_strategy_on_two_nodes(login: Login) -> None:
    done = login.launch(
        "--nodes", "2", "--wait", "tf_mnist", "--", *MIRRORED, "--epochs", "1",
        "--warmup-epochs", "0",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = login.told("result")
    assert (result["world_size"], len(set(result["hosts"]))) == (2, 2)
    assert (result["exchange"], result["controller"]) == ("mirrored", "none")


def test_keras_learns_on_four_ranks(login: Login) -> None:
    result = train(login, 4, "keras_mnist", "--schedule", "cosine", "--precision", "bf16")
    assert result["accuracy"] >= 0.97
    assert result["steps"] == 16 * (1438 // 128)


def test_keras_stopped_on_a_signal_and_resumed_is_as_if_never_stopped(login: Login) -> None:
    whole = train(login, 2, "keras_mnist")
    assert whole["accuracy"] >= 0.97
    expected = weights(login)
    login.sh(f"rm -r {login.folder}/out")
    stopped = ended(ranks(login, 2, "-c", STOP_IN_STEP_40), 91)
    assert stopped.stdout.count("stopped on SIGUSR1 after step 40; a checkpoint is saved") == 1
    resumed = train(login, 2, "keras_mnist", "--resume", "auto")
    assert resumed["resumed_at_steps"] == [40]
    assert resumed["accuracy"] == whole["accuracy"]
    assert weights(login) == expected


def test_a_loss_that_is_no_number_names_the_step(login: Login) -> None:
    done = ended(ranks(login, 2, "-m", "recipes.tf_mnist", "--base-lr", "1e20"), 1)
    assert done.stderr.count("error: training diverged: the loss is nan in step ") == 1
    assert "Traceback" not in done.stderr


def test_a_resnet_learns_from_folders_and_names_a_bad_image(login: Login) -> None:
    synthetic(login, "imagenet", "--samples", "40", "--classes", "2", "--size", "40")
    small = ["--image-size", "32", "--batch-size", "4", "--workers", "1"]
    small += ["--data", "imagenet", "--epochs", "2", "--schedule", "cosine", "--log-interval", "2"]
    result = train(login, 2, "tf_resnet", *small, "--timeline", "--profile", "2-3")
    assert (result["steps"], result["epochs"]) == (10, 2)
    out = f"{login.folder}/out"
    assert "gradient.0" in login.sh(f"cat {out}/timeline.json")
    assert login.sh(f"ls {out}/profile/rank-[01]/plugins/profile/*/*.xplane.pb").count("\n") == 2
    login.sh(f"cd {login.folder}; {SPOIL['imagenet']}")
    done = ended(ranks(login, 2, "-m", "recipes.tf_resnet", *small), 2)
    assert done.stderr.count("cannot read the image imagenet/train/n00000001/") == 1
    assert "Traceback" not in done.stderr


def test_synthetic_images_measure_speed(login: Login) -> None:
    small = ["--synthetic", "--model", "resnet20", "--batch-size", "2", "--epochs", "3"]
    succeeded(ranks(login, 1, "-m", "recipes.tf_resnet", *small))
    result = json.loads(login.sh(f"cat {login.folder}/out/result.json"))
    assert (result["epochs"], result["steps"]) == (3, 30)
    assert result["samples_per_s"] > 0
