"""What a study asks: sizes, variants, the order of its runs, arguments of strong scaling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runners.scale import study_request
from runners.scale.study_request import Point, Size, as_json, from_json, sizes, variants

from .. import sentences
from .scaled import GLOO, question

ONE = Point(Size(1), GLOO, 1)


def test_sizes_are_nodes_or_nodes_and_ranks() -> None:
    assert sizes("4,1,2") == (Size(1), Size(2), Size(4))
    assert sizes("1x1,2x4") == (Size(1, 1), Size(2, 4))


@pytest.mark.parametrize("text", ["", "0", "1,,2", "a", "1x0", "1;2"])
def test_other_sizes_are_refused(text: str) -> None:
    with sentences.raises("nodes-not-numbers"):
        sizes(text)


def test_a_size_that_is_named_twice_is_refused() -> None:
    with sentences.raises("nodes-named-twice"):
        sizes("2,2")


def test_every_combination_is_a_variant() -> None:
    found = variants(["controller=gloo,mpi", "trainer=torch_mnist,torch_lm"])
    assert [variant.label for variant in found] == [
        "gloo torch_mnist", "gloo torch_lm", "mpi torch_mnist", "mpi torch_lm",
    ]  # fmt: skip
    assert dict(found[1].settings) == {"controller": "gloo", "trainer": "torch_lm"}


def test_a_value_brings_another_setting_along() -> None:
    plain, host = variants(["runtime=apptainer,none+image=/scratch/me/env"])
    assert dict(host.settings) == {"runtime": "none", "image": "/scratch/me/env"}
    assert (plain.label, host.label) == ("apptainer", "none")


def test_what_averages_the_gradients_varies_as_an_option_of_the_trainer() -> None:
    asked = question(variants=tuple(variants(["exchange=horovod,ddp"])))
    ways = [Point(Size(2), way, 1) for way in asked.variants]
    assert [way.key for way in ways] == ["2n-horovod-r1", "2n-ddp-r1"]
    assert [asked.args_of(way)[-2:] for way in ways] == [
        ("--exchange", "horovod"), ("--exchange", "ddp"),
    ]  # fmt: skip
    assert "exchange" not in asked.settings(ways[1])


def test_values_have_the_kinds_of_their_settings() -> None:
    one, _ = variants(["cpus-per-task=1,2"])
    assert dict(one.settings) == {"cpus-per-task": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("controler=gloo,mpi", ["vary-unknown"]),
        ("controller=gloo,mpl", ["table-invalid"]),
        ("nodes=1,2", ["vary-unknown"]),
        ("controller", ["axis-malformed", "--vary controller=gloo,mpi"]),
        ("controller=gloo,gloo", ["axis-values-malformed", "--vary controller=gloo"]),
        ("image=a/x.sif,b/x.sif", ["vary-same-name"]),
        ("cpus-per-task=many,1", ["table-invalid"]),
    ],
)
def test_what_cannot_vary_is_refused(text: str, told: list[str]) -> None:
    with sentences.raises(*told):
        variants([text])


def test_each_repeat_has_every_run_once_and_an_order_of_its_own() -> None:
    asked = question((1, 2, 4, 8), 3)
    keys = [point.key for point in asked.points()]
    assert len(set(keys)) == len(keys) == 24
    blocks = [[key[:-1] for key in keys[i : i + 8]] for i in (0, 8, 16)]
    assert all(sorted(block) == sorted(blocks[0]) for block in blocks)
    assert len({tuple(block) for block in blocks}) == 3
    assert keys == [point.key for point in asked.points()], "the order is always the same"


def test_keys_are_names_of_folders() -> None:
    (way,) = variants(["image=/scratch/a b/../x.sif"])
    assert Point(Size(2, 4), way, 3).key == "2x4n-x.sif-r3"


def test_a_size_with_ranks_has_a_gpu_for_each() -> None:
    asked = question(flags=(("gpus-per-node", "A100:8"), ("nodes", 9)))
    found = asked.settings(Point(Size(2, 4), asked.variants[0], 1))
    assert found["gpus-per-node"] == "A100:4"
    assert (found["nodes"], found["ntasks-per-node"], found["controller"]) == (2, 4, "gloo")
    on_cpus = question(flags=(("gpus-per-node", "0"),))
    assert on_cpus.settings(Point(Size(2, 4), asked.variants[0], 1))["gpus-per-node"] == "0"


@pytest.mark.parametrize("args", [("--batch-size", "64", "--epochs", "2"), ("--batch-size=64",)])
def test_strong_scaling_shares_the_batch(args: tuple[str, ...]) -> None:
    shared = question(strong=True, args=args).args_of(ONE, 4)
    assert "16" in " ".join(shared)
    assert len(shared) == len(args)
    assert question(args=args).args_of(ONE, 4) == args, "weak scaling leaves it"


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with sentences.raises("strong-batch-uneven", "--batch-size 66"):
        question(strong=True, args=("--batch-size", "64")).args_of(ONE, 3)
    with sentences.raises("strong-without-batch"):
        question(strong=True).args_of(ONE, 2)


def test_a_question_survives_its_file() -> None:
    asked = question(strong=True, flags=(("image", "x.sif"), ("bind", ["/a"])))
    assert from_json(json.loads(json.dumps(as_json(asked)))) == asked


def test_epochs_that_all_warm_up_are_refused() -> None:
    for args in (("--epochs", "1"), ("--lr", "1", "--epochs=1")):
        with sentences.raises("drop-all-epochs"):
            study_request.check_epochs(args, drop=1)
        study_request.check_epochs(args, drop=0)
    study_request.check_epochs(("--epochs", "2"), drop=1)
    study_request.check_epochs((), drop=1)


def test_a_comma_within_a_value_is_escaped() -> None:
    one, two = variants([r"image=a\,b.sif,c.sif"])
    assert (dict(one.settings)["image"], two.label) == ("a,b.sif", "c.sif")


def test_a_study_is_asked_with_what_was_given_and_is_not_its_own() -> None:
    flags: dict[str, Any] = {"image": "a.sif", "env": [], "time": None, "nodes": "1,2"}
    asked = study_request.asked("train.py", ("--lr", "1"), "2,1", (), flags, repeats=5)
    assert (asked.sizes, asked.repeats, asked.flags) == (
        (Size(1), Size(2)),
        5,
        (("image", "a.sif"),),
    )


@pytest.mark.parametrize(
    ("trainer", "nodes", "id"),
    [(None, "1", "trainer-not-given"), ("train.py", None, "nodes-not-given")],
)
def test_a_study_needs_a_trainer_and_nodes(trainer: str | None, nodes: str | None, id: str) -> None:
    with sentences.raises(id):
        study_request.asked(trainer, (), nodes, (), {})
