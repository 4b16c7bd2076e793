"""What a study asks: sizes, variants, the order of its runs, arguments of strong scaling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runners.core.errors import UsageError
from runners.scale import study_request
from runners.scale.study_request import Point, Size, as_json, from_json, sizes, variants

from .scaled import GLOO, question

ONE = Point(Size(1), GLOO, 1)


def test_sizes_are_nodes_or_nodes_and_ranks() -> None:
    assert sizes("4,1,2") == (Size(1), Size(2), Size(4))
    assert sizes("1x1,2x4") == (Size(1, 1), Size(2, 4))


@pytest.mark.parametrize("text", ["", "0", "1,,2", "a", "1x0", "2,2", "1;2"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--nodes"):
        sizes(text)


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
        ("controler=gloo,mpi", "did you mean controller"),
        ("controller=gloo,mpl", "must be one of"),
        ("nodes=1,2", "cannot vary"),
        ("controller", "not NAME=VALUE"),
        ("controller=gloo,gloo", "the value 'gloo' twice"),
        ("image=a/x.sif,b/x.sif", "two values of the same name"),
        ("cpus-per-task=many,1", "must be a whole number"),
    ],
)
def test_what_cannot_vary_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        variants([text])
    assert told in str(error.value)


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
    with pytest.raises(UsageError, match="cannot be shared by 3 ranks"):
        question(strong=True, args=("--batch-size", "64")).args_of(ONE, 3)
    with pytest.raises(UsageError, match="needs the trainer's --batch-size"):
        question(strong=True).args_of(ONE, 2)


def test_a_question_survives_its_file() -> None:
    asked = question(strong=True, flags=(("image", "x.sif"), ("bind", ["/a"])))
    assert from_json(json.loads(json.dumps(as_json(asked)))) == asked


def test_epochs_that_all_warm_up_are_refused() -> None:
    for args in (("--epochs", "1"), ("--lr", "1", "--epochs=1")):
        with pytest.raises(UsageError, match="leaves none of --epochs 1"):
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
    with pytest.raises(UsageError) as caught:
        study_request.asked(trainer, (), nodes, (), {})
    assert caught.value.diagnosis.id == id
