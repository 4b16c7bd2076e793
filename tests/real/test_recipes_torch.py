"""The other PyTorch trainers in the image: DDP, ResNets, token files; and what is left behind."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.bench import warmup

from .conftest import Login, ended, succeeded
from .test_recipes import ranks, train

pytestmark = [pytest.mark.slow, pytest.mark.unpacked]

# All ranks together take 1436 of 1438 samples in a step, so the next one has 2: on two of four
# ranks one each, and none on the others.
NEARLY_ALL = 1436
PLAIN = ["--epochs", "4", "--dropout", "0", "--warmup-epochs", "0"]

# Writes over a file: cuts it, or sets a byte.
SPOIL = {
    "imagenet": "truncate -s 200 imagenet/train/n00000001/*3.png",
    "cifar10": r"cd cifar10/*-bin; printf '\021' | dd of=data_batch_3.bin bs=1 conv=notrunc",
    "tokens": r"printf '\377\377' | dd of=tokens/train.bin bs=2 seek=123 conv=notrunc",
}


def curve(login: Login, count: int, trainer: str, *words: str) -> list[tuple[float, ...]]:
    """Train; return the losses and the accuracy of each epoch."""
    train(login, count, trainer, *words)
    lines = map(json.loads, login.sh(f"cat {login.folder}/out/metrics.jsonl").splitlines())
    names = ("loss", "test_loss", "accuracy")
    return [tuple(line[name] for name in names) for line in lines if line["event"] == "epoch"]


def synthetic(login: Login, kind: str, *words: str) -> None:
    """Write a data set of a kind under its name."""
    succeeded(login.runner("data", "synth", kind, kind, *words))


def same(one: list[tuple[float, ...]], other: list[tuple[float, ...]]) -> bool:
    return len(one) == len(other) and all(a == pytest.approx(b, 1e-4) for a, b in zip(one, other))


def test_curves_of_horovod_and_ddp_are_those_of_one_rank(login: Login) -> None:
    def digits(count: int, exchange: str) -> list[tuple[float, ...]]:
        share = ["--batch-size", str(NEARLY_ALL // count), "--base-lr", str(0.05 / count)]
        return curve(login, count, "torch_mnist", *PLAIN, *share, "--exchange", exchange)

    alone = digits(1, "horovod")
    assert alone[-1][0] < alone[0][0]
    for exchange in ("horovod", "ddp"):
        for count in (2, 4):
            assert same(alone, digits(count, exchange)), (exchange, count)


def test_ddp_draws_the_dropout_that_horovod_draws(login: Login) -> None:
    words = ["--epochs", "1", "--batches-per-allreduce", "2"]
    one = curve(login, 3, "torch_mnist", *words, "--exchange", "ddp")
    assert same(one, curve(login, 3, "torch_mnist", *words))


def test_a_copied_trainer_and_ddp_on_two_nodes(login: Login) -> None:
    copied = login.runner("recipes", "copy", "torch_mnist")
    assert "next: runner launch --image IMAGE --nodes 2 ./torch_mnist.py" in copied.stdout
    login.sh(f"sed -i 's/momentum=0.9/momentum=0.8/' {login.folder}/torch_mnist.py")
    words = ["--exchange", "ddp", "--epochs", "1", "--warmup-epochs", "0"]
    losses = {}
    for trainer, more in (
        ("torch_mnist", []),
        ("./torch_mnist.py", ["--controller", "mpi"]),
    ):
        shape = ["--nodes", "2", *more, "--wait"]
        succeeded(login.launch(*shape, trainer, "--", *words))
        result = login.told("result")
        assert (result["world_size"], result["controller"]) == (2, "none")
        assert (result["exchange"], len(set(result["hosts"]))) == ("ddp", 2)
        losses[trainer] = result["loss"]
    assert losses["torch_mnist"] != losses["./torch_mnist.py"]  # what was edited ran


def of_one_rank(rate: float, count: int) -> str:
    """Return the --base-lr with which `count` ranks of torch_lm have the rate of one."""
    return repr(rate / math.sqrt(count))


def test_token_files_give_the_same_curve_whatever_exchanges(login: Login) -> None:
    synthetic(login, "tokens", "--samples", "1700", "--vocabulary", "40")
    small = [
        "--data",
        "tokens",
        "--context",
        "16",
        "--width",
        "32",
        "--heads",
        "2",
        "--layers",
        "1",
        "--epochs",
        "2",
    ]
    alone = curve(login, 1, "torch_lm", *small, "--batch-size", "16")
    assert alone[1][0] < alone[0][0] < 4
    for exchange in ("horovod", "ddp", "fsdp"):
        words = ["--batch-size", "8", "--base-lr", of_one_rank(0.002, 2), "--exchange", exchange]
        assert same(alone, curve(login, 2, "torch_lm", *small, *words)), exchange


def test_fsdp_goes_on_with_another_number_of_ranks(login: Login) -> None:
    """As if there had been one rank all the time."""
    words = ["--width", "16", "--epochs", "2"]

    def go_on(count: int, steps: int, *more: str) -> list[tuple[float, ...]]:
        each = ["--batch-size", str(12 // count), "--base-lr", of_one_rank(0.012, count)]
        stop = ["--max-steps", str(steps), "--exchange", "ddp" if count == 1 else "fsdp"]
        return curve(login, count, "torch_lm", *words, *each, *stop, *more)

    alone = go_on(1, 12)
    login.sh("rm -r out")
    go_on(2, 4)
    go_on(3, 8, "--resume", "auto")
    assert same(alone, go_on(2, 12, "--resume", "auto"))
    newest = "$(ls -d out/checkpoints/*.ckpt | tail -n 1)"
    login.sh(f"truncate -s -1 {newest}/__0_0.distcp")
    go_on(4, 16, "--resume", "auto")
    resumed = json.loads(login.sh("grep '\"resume\"' out/metrics.jsonl | tail -n 1"))
    assert resumed["step"] == 8


def test_fsdp_with_one_rank_is_refused(login: Login) -> None:
    done = ended(ranks(login, 1, "-m", "recipes.torch_lm", "--exchange", "fsdp"), 2)
    assert done.stderr.count("--exchange fsdp: one rank has nothing to shard") == 1
    assert login.sh(f"ls {login.folder}") == ""


def test_the_plan_knows_what_a_trainer_exchanges_with(login: Login) -> None:
    words = ["--nodes", "2", "--launcher", "torchrun", "--wait", "torch_lm", "--"]
    small = ["--width", "16", "--max-steps", "4", "--epochs", "1"]
    succeeded(login.launch(*words, "--exchange", "fsdp", *small))
    result = login.told("result")
    assert (result["exchange"], result["controller"]) == ("fsdp", "none")
    ended(login.launch(*words, *small), 80, "torch_lm creates its process group with Horovod")
    # The same of a copy.
    login.runner("recipes", "copy", "torch_lm")
    copy = ["--nodes", "2", "--wait", "./torch_lm.py", "--", "--exchange", "ddp", *small]
    assert "rank --controller none " in login.launch("--dry-run", *copy).stdout
    succeeded(login.launch(*copy))
    result = login.told("result")
    assert (result["exchange"], result["controller"]) == ("ddp", "none")


def test_a_resnet_exchanges_by_ddp_and_horovod_alike(login: Login) -> None:
    """Also where the weights have another memory format, as on GPUs."""
    synthetic(login, "cifar10", "--samples", "64")
    words = ["--model", "resnet20", "--batch-size", "8", "--epochs", "2", "--data", "cifar10"]
    one = curve(login, 2, "torch_resnet", *words, "--exchange", "ddp")
    assert same(one, curve(login, 2, "torch_resnet", *words))
    program = """
import torch
from recipes import torch_resnet
torch.contiguous_format = torch.channels_last
torch_resnet.main()
"""
    succeeded(ranks(login, 2, "-c", program, *words))
    lines = map(json.loads, login.sh(f"cat {login.folder}/out/metrics.jsonl").splitlines())
    losses = [line["loss"] for line in lines if line["event"] == "epoch"]
    assert losses == pytest.approx([epoch[0] for epoch in one], 1e-3)


def test_a_resnet_learns_from_folders_and_leaves_all_records(login: Login) -> None:
    synthetic(login, "imagenet", "--samples", "40", "--classes", "2", "--size", "40")
    small = ["--image-size", "32", "--batch-size", "4", "--workers", "1"]
    small += ["--data", "imagenet", "--epochs", "2", "--schedule", "cosine", "--log-interval", "2"]
    result = train(login, 2, "torch_resnet", *small, "--timeline", "--profile", "2-3")
    assert (result["steps"], result["epochs"]) == (10, 2)
    out = f"{login.folder}/out"
    timeline = json.loads(login.sh(f"cat {out}/timeline.json"))
    assert any("statistics" in str(event) for event in timeline)
    assert login.sh(f"ls {out}/profile/rank-*/*.pt.trace.json").count("\n") == 2
    trace = json.loads(login.sh(f"cat {out}/profile/rank-1/*.pt.trace.json"))
    assert any("convolution" in event.get("name", "") for event in trace["traceEvents"])


@pytest.mark.parametrize("model", ["resnet20", "resnet110"])
def test_a_resnet_learns_from_cifar10(login: Login, model: str) -> None:
    synthetic(login, "cifar10", "--samples", "50")
    small = ["--model", model, "--batch-size", "4", "--epochs", "1", "--precision", "bf16"]
    result = train(login, 2, "torch_resnet", "--data", "cifar10", *small, "--fp16-allreduce")
    assert result["steps"] == 50 // 8
    assert result["arguments"]["image_size"] == 32


def test_without_warm_up_the_rate_of_many_ranks_spoils_the_training() -> None:
    """With it they learn what one rank learns."""
    assert warmup.accuracy(warmup.RANKS, warmup.WARMUP_EPOCHS) > 0.95
    assert warmup.accuracy(warmup.RANKS, 0) < 0.5


# Those of blocks and the first are 3 x 3; 1 x 1 are the shortcuts, which He et al. do not count.
LAYERS = """
import os, sys
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
sys.argv[1:] = []
from recipes import tf_resnet, torch_resnet
for name in ("resnet20", "resnet110"):
    shapes = [tuple(w.shape)[2:] for w in torch_resnet.ResNet(name, 10).parameters()]
    keras = tf_resnet.build_model(name, 10, 32)
    others = [tuple(w.shape)[:2] for w in keras.trainable_variables]
    print(name, *(all.count((3, 3)) + 1 for all in (shapes, others)))
"""


def test_the_resnets_for_cifar10_have_their_layers(login: Login) -> None:
    said = succeeded(ranks(login, 1, "-c", LAYERS)).stdout
    assert "resnet20 20 20" in said
    assert "resnet110 110 110" in said


def test_synthetic_images_measure_speed(login: Login) -> None:
    small = ["--synthetic", "--model", "resnet20", "--batch-size", "2", "--epochs", "4"]
    succeeded(ranks(login, 2, "-m", "recipes.torch_resnet", *small))
    result: dict[str, Any] = json.loads(login.sh(f"cat {login.folder}/out/result.json"))
    assert (result["epochs"], result["steps"]) == (4, 40)
    assert result["samples_per_s"] > 0


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (
            "imagenet",
            "torch_resnet --image-size 32 --batch-size 4",
            "cannot read the image imagenet/train/n00000001/",
        ),
        (
            "cifar10",
            "torch_resnet --model resnet20 --batch-size 4",
            "data_batch_3.bin: the label of image 0 is 17, not 0 to 9",
        ),
        (
            "tokens",
            "torch_lm --context 16 --width 32",
            "train.bin: token 65535 at position 123 is not in the vocabulary of 256",
        ),
    ],
)
def test_bad_data_is_told_once(login: Login, kind: str, words: str, message: str) -> None:
    synthetic(login, kind, "--samples", "1000" if kind == "tokens" else "40")
    login.sh(f"cd {login.folder}; {SPOIL[kind]}")
    done = ended(ranks(login, 2, "-m", *f"recipes.{words} --data {kind}".split()), 2)
    assert done.stderr.count(message) == 1
    assert "Traceback" not in done.stderr
    assert login.sh(f"ls {login.folder}/out/checkpoints 2>/dev/null || true") == ""


def test_fewer_samples_than_ranks(login: Login) -> None:
    synthetic(login, "tokens", "--samples", "400")
    login.sh(f"truncate -s 42 {login.folder}/tokens/train.bin")  # one sequence of 20 and 1 tokens
    done = ranks(login, 2, "-m", "recipes.torch_lm", "--data", "tokens", "--context", "20")
    assert done.returncode == 2
    assert done.stderr.count("1 training samples for 2 ranks: each needs at least one") == 1


def test_a_loss_that_is_no_number_names_step_and_rank(login: Login) -> None:
    spoilt = """
import torch, horovod.torch as hvd
from recipes import agreement, torch_mnist as it
agreement.AGREE_SECONDS = 3600
plain, calls = it.functional.cross_entropy, []
def cross_entropy(*args, **words):
    calls.append(1)
    return plain(*args, **words) * (float("nan") if hvd.rank() == 1 and len(calls) == 3 else 1)
it.functional.cross_entropy = cross_entropy
it.main()
"""
    done = ended(ranks(login, 2, "-c", spoilt), 1)
    assert done.stderr.count("training diverged: the loss is nan in step 3, epoch 1") == 1
    assert "error: on rank 1@" in done.stderr
