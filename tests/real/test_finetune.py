"""torch_finetune in the image: all weights, then adapters alone, and models that are none."""

from __future__ import annotations

import json

import pytest

from .conftest import Login, ended
from .test_recipes import ranks, train

pytestmark = [pytest.mark.slow, pytest.mark.unpacked]

# The synthetic reviews with the opposite labels, as files.
WRITE_REVERSED = """
from recipes import texts
for name, count, part in ("train", 1024, 1), ("test", 256, 2):
    with open(name + ".tsv", "w") as file:
        print("text", "label", sep="\\t", file=file)
        for text, label in zip(*texts.sample(count, part)):
            print(text, 1 - label, sep="\\t", file=file)
"""
NAMES = """
import sys, torch
print(*torch.load(sys.argv[1], weights_only=True)["model"])
"""


def learns(name: str) -> bool:
    """Whether a weight of this name is an adapter's or the last layer's."""
    return "lora_" in name or "classifier" in name


def test_all_weights_learn_then_only_adapters(login: Login) -> None:
    result = train(login, 2, "torch_finetune", "--epochs", "4")
    assert result["accuracy"] >= 0.97
    assert result["trainable_parameters"] == result["parameters"]
    files = login.sh("ls out/model").split()
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    login.sh("mv out full")
    assert ranks(login, 1, "-c", WRITE_REVERSED).returncode == 0

    words = ["--model", "full/model", "--data", ".", "--lora", "--base-lr", "0.002"]
    result = train(login, 2, "torch_finetune", *words, "--epochs", "4", "--timeline")
    assert result["accuracy"] >= 0.97  # the model began with none right
    assert result["trainable_parameters"] < result["parameters"] / 5
    assert "adapter_model.safetensors" in login.sh("ls out/model").split()
    newest = login.sh("ls out/checkpoints/*.ckpt | tail -n 1").strip()
    saved = ranks(login, 1, "-c", NAMES, newest).stdout.split()
    assert len(saved) > 10
    assert all(map(learns, saved))
    events = json.loads(login.sh("cat out/timeline.json"))
    names = {event["args"].get("name", "") for event in events if event.get("args")}
    sent = {name for name in names if name.startswith("allreduce.base_model")}
    assert len(sent) == len(saved)
    assert all(map(learns, sent))


def test_a_users_mistake_is_told_once(login: Login) -> None:
    login.sh('mkdir empty cut && printf \'{"model_type": "bert"}\' > cut/config.json')
    login.sh("echo '{}' > cut/tokenizer_config.json")
    login.sh("head -c 99 /dev/zero > cut/model.safetensors")
    login.sh("printf 'text\\tlabel\\ngood\\t1\\nbad\\t0\\ncut\\n' | tee train.tsv > test.tsv")
    for words, message in (
        (["--model", "/nowhere"], "--model /nowhere: no such folder"),
        (["--model", "empty"], "not a model: config.json, weights (*.safetensors), a tokenizer"),
        (["--model", "cut"], "the model in cut cannot be loaded: "),
        (["--data", "."], "train.tsv, line 4: 1 columns, and the first line names 2: text, label"),
    ):
        done = ended(ranks(login, 2, "-m", "recipes.torch_finetune", *words), 2)
        assert done.stderr.count(message) == 1, done.stderr
        assert "Traceback" not in done.stderr
