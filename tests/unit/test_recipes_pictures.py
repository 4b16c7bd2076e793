"""Readers of pictures, and what the ResNets share; Pillow's part is tested in the image."""

from __future__ import annotations

import pickle
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from recipes import cifar, imagenet, pictures, resnet_options
from recipes.common import UserError, decay
from recipes.common.steps import deal
from recipes.formats.cifar import PIXELS, TEST, TRAINING

from .one_rank import OneRank

EACH = 4  # pictures in a file


def cifar_folder(path: Path, form: str = "bin") -> Path:
    """Write CIFAR-10 in one of its forms; picture k of file n has red k, label (n + k) % 10."""
    batches = path / f"cifar-10-batches-{form}"
    batches.mkdir()
    for number, name in enumerate(TRAINING + TEST):
        labels = [(number + k) % 10 for k in range(EACH)]
        rows = np.zeros((EACH, PIXELS), np.uint8)
        rows[:, :1024] = np.arange(EACH)[:, None]
        if form == "bin":
            records = np.hstack([np.array(labels, np.uint8)[:, None], rows])
            (batches / f"{name}.bin").write_bytes(records.tobytes())
        else:
            whole = {b"data": rows, b"labels": labels}
            (batches / name).write_bytes(pickle.dumps(whole, protocol=2))
    return batches


@pytest.mark.parametrize("form", ["bin", "py"])
@pytest.mark.parametrize("inside", [True, False])
def test_cifar_in_both_forms(tmp_path: Path, form: str, inside: bool) -> None:
    batches = cifar_folder(tmp_path, form)
    data = cifar.load(str(batches if inside else tmp_path), seed=1)
    assert (len(data.train), len(data.test), data.size, data.classes) == (20, 4, 32, 10)
    pixels, labels = data.test.read(1, np.arange(4))
    assert pixels.shape == (4, 32, 32, 3)
    assert (pixels[3] == [3, 0, 0]).all()
    assert labels.tolist() == [5, 6, 7, 8]


def test_pictures_to_learn_from_differ_by_epoch_and_not_by_run(tmp_path: Path) -> None:
    cifar_folder(tmp_path)
    one, other = (cifar.load(str(tmp_path), seed=1).train for _ in range(2))
    alone, together = one.read(2, np.array([7])), other.read(2, np.array([3, 7]))
    assert (alone[0][0] == together[0][1]).all()
    seen = [one.read(epoch, np.array([7]))[0] for epoch in range(6)]
    assert any((seen[0] != later).any() for later in seen)
    assert one.read(1, np.arange(0))[0].shape == (0, 32, 32, 3)


def test_a_label_out_of_range_is_named(tmp_path: Path) -> None:
    path = cifar_folder(tmp_path) / "data_batch_3.bin"
    data = bytearray(path.read_bytes())
    data[1 + PIXELS] = 17
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"data_batch_3.bin: the label of picture 1 is 17, not 0"):
        cifar.load(str(tmp_path), seed=1)


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    path = cifar_folder(tmp_path) / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"test_batch.bin is damaged"):
        cifar.load(str(tmp_path), seed=1)


class Harm:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("harm was done",)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Harm(), "it wants to run"),
        ({b"data": [1, 2], b"labels": [0, 1]}, "no set of labelled pictures"),
        ([], "not of CIFAR-10's form for Python"),
    ],
)
def test_a_bad_pickle_runs_nothing(
    tmp_path: Path, value: object, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (cifar_folder(tmp_path, "py") / "data_batch_2").write_bytes(pickle.dumps(value, protocol=2))
    with pytest.raises(UserError, match=r"data_batch_2 .*") as caught:
        cifar.load(str(tmp_path), seed=1)
    assert message in str(caught.value)
    assert capsys.readouterr().out == ""


def test_cifar_that_is_missing_or_incomplete(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        cifar.load(str(tmp_path / "nowhere"), seed=1)
    with pytest.raises(UserError, match="no CIFAR-10 in"):
        cifar.load(str(tmp_path), seed=1)
    (cifar_folder(tmp_path) / "data_batch_4.bin").unlink()
    with pytest.raises(UserError, match=r"incomplete CIFAR-10 .*: no data_batch_4.bin"):
        cifar.load(str(tmp_path), seed=1)


def image_folder(path: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"")
    return path


def test_a_listing_has_sorted_classes_and_files(tmp_path: Path) -> None:
    names = ("train/b/2.JPEG", "train/b/1.png", "train/a/x.jpg", "train/a/.x.jpg", "val/b/v.jpeg")
    found = imagenet.load(str(image_folder(tmp_path, (*names, "train/a/notes.txt"))), 8, seed=1)
    assert (found.classes, found.size) == (2, 8)
    assert isinstance(found.train, imagenet.Folder)
    assert isinstance(found.test, imagenet.Folder)
    assert found.train.names == ["train/a/x.jpg", "train/b/1.png", "train/b/2.JPEG"]
    assert found.train.labels.tolist() == [0, 1, 1]
    assert (found.test.names, found.test.labels.tolist()) == (["val/b/v.jpeg"], [1])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train/a/x.jpg",), "no folder val in"),
        (("train/x.jpg", "val/a/x.jpg"), "train has no folders: each class needs its own"),
        (("train/a/x.txt", "val/a/x.jpg"), "train/a has no pictures"),
        (("train/a/x.jpg", "val/a/x.txt"), "val has no pictures"),
        (("train/a/x.jpg", "val/c/x.jpg"), "val has classes that train has not: c"),
    ],
)
def test_a_folder_that_is_no_image_folder(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        imagenet.load(str(image_folder(tmp_path, names)), 8, seed=1)
    assert message in str(caught.value)


def test_cuts_lie_within_the_picture() -> None:
    generator = np.random.default_rng(0)
    for size in ((500, 375), (3, 900), (1, 1)):
        for _ in range(50):
            left, top, right, bottom = imagenet.cut(size, generator)
            assert 0 <= left < right <= size[0]
            assert 0 <= top < bottom <= size[1]
    assert imagenet.middle((256, 512)) == (16, 144, 240, 368)


def test_synthetic_pictures_are_as_many_as_wanted() -> None:
    data = pictures.synthetic(16, 1000, count=12800, test_count=2)
    pixels, labels = data.train.read(1, np.array([12799, 64]))
    assert (len(data.train), len(data.test), pixels.shape) == (12800, 2, (2, 16, 16, 3))
    assert labels.tolist() == [799, 64]


# What the ResNets share


def settings(*words: str) -> Namespace:
    return resnet_options.check(resnet_options.parser("torch_resnet").settings(words))


def test_complete_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATA_DIR", raising=False)
    args = settings("--synthetic")
    assert (args.image_size, args.epochs) == (224, resnet_options.SYNTHETIC_EPOCHS)
    args = settings("--model", "resnet110", "--data", "there")
    assert (args.image_size, args.epochs) == (32, resnet_options.EPOCHS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "resnet50 needs data: --data DIR with an ImageNet folder, or --synthetic"),
        (["--model", "resnet20"], "resnet20 needs data: --data DIR with CIFAR-10"),
        (["--synthetic", "--batch-size", "1"], "--batch-size 1"),
        (["--model", "resnet20", "--data", "x", "--image-size", "9"], "--image-size is for"),
    ],
)
def test_settings_that_do_not_go_together(
    monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.delenv("DATA_DIR", raising=False)
    with pytest.raises(UserError) as caught:
        settings(*words)
    assert message in str(caught.value)


def test_only_whole_steps_are_dealt() -> None:
    args = settings("--synthetic", "--batch-size", "4")
    world = OneRank(0, ("another rank",))
    steps = list(deal(args, world, 21, "pictures", whole_steps=True).batches(epoch=1))
    assert [batch.own for batch in steps] == [4, 4]
    with pytest.raises(UserError, match=r"7 training pictures are fewer than one step .*\(8\)"):
        deal(args, world, 7, "pictures", whole_steps=True)


def test_rates_fall_as_scheduled() -> None:
    assert [decay("constant", share) for share in (0, 0.5, 1)] == [1, 1, 1]
    assert [round(decay("step", share), 4) for share in (0, 0.34, 0.67, 0.9)] == [
        1,
        0.1,
        0.01,
        1e-3,
    ]
    assert [round(decay("cosine", share), 4) for share in (0, 0.5, 1, 1.1)] == [1, 0.5, 0, 0]


def test_cifar_for_a_network_of_imagenet_says_which_model_is_for_it(tmp_path: Path) -> None:
    cifar_folder(tmp_path)
    with pytest.raises(UserError, match="has CIFAR-10, which --model resnet110 and resnet20"):
        imagenet.load(str(tmp_path), 8, seed=1)
