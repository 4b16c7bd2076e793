"""Readers of images, good and bad; Pillow's part is tested in the image."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from recipes import images
from recipes.distributed import UserError
from runners.data.synth import CIFAR_PIXELS, CIFAR_TEST, CIFAR_TRAINING

from .. import sentences

EACH = 4  # pictures in a file


def cifar_folder(path: Path, form: str = "bin") -> Path:
    """Write CIFAR-10 in one of its forms; picture k of file n has red k, label (n + k) % 10."""
    batches = path / f"cifar-10-batches-{form}"
    batches.mkdir()
    for number, name in enumerate(CIFAR_TRAINING + CIFAR_TEST):
        labels = [(number + k) % 10 for k in range(EACH)]
        rows = np.zeros((EACH, CIFAR_PIXELS), np.uint8)
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
    data = images.load_cifar10(str(batches if inside else tmp_path), seed=1)
    assert (len(data.train), len(data.test), data.size, data.classes) == (20, 4, 32, 10)
    pixels, labels = data.test.read(1, np.arange(4))
    assert pixels.shape == (4, 32, 32, 3)
    assert (pixels[3] == [3, 0, 0]).all()
    assert labels.tolist() == [5, 6, 7, 8]


def test_pictures_to_learn_from_differ_by_epoch_and_not_by_run(tmp_path: Path) -> None:
    cifar_folder(tmp_path)
    first, second = (images.load_cifar10(str(tmp_path), seed=1).train for _ in range(2))
    alone, together = first.read(2, np.array([7])), second.read(2, np.array([3, 7]))
    assert (alone[0][0] == together[0][1]).all()
    seen = [first.read(epoch, np.array([7]))[0] for epoch in range(6)]
    assert any((seen[0] != later).any() for later in seen)
    assert first.read(1, np.arange(0))[0].shape == (0, 32, 32, 3)


def test_a_label_out_of_range_is_named(tmp_path: Path) -> None:
    path = cifar_folder(tmp_path) / "data_batch_3.bin"
    data = bytearray(path.read_bytes())
    data[1 + CIFAR_PIXELS] = 17
    path.write_bytes(data)
    with sentences.refuses(UserError):
        images.load_cifar10(str(tmp_path), seed=1)


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    path = cifar_folder(tmp_path) / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with sentences.refuses(UserError):
        images.load_cifar10(str(tmp_path), seed=1)


class Harm:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("harm was done",)


@pytest.mark.parametrize(
    "value", [Harm(), {b"data": [1, 2], b"labels": [0, 1]}, []], ids=["harm", "data", "list"]
)
def test_a_bad_pickle_runs_nothing(
    tmp_path: Path, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    (cifar_folder(tmp_path, "py") / "data_batch_2").write_bytes(pickle.dumps(value, protocol=2))
    with sentences.refuses(UserError) as caught:
        images.load_cifar10(str(tmp_path), seed=1)
    assert "data_batch_2" in str(caught.value)
    assert capsys.readouterr().out == ""


def test_cifar_that_is_missing_or_incomplete(tmp_path: Path) -> None:
    with sentences.refuses(UserError):
        images.load_cifar10(str(tmp_path / "nowhere"), seed=1)
    with sentences.refuses(UserError):
        images.load_cifar10(str(tmp_path), seed=1)
    (cifar_folder(tmp_path) / "data_batch_4.bin").unlink()
    with sentences.refuses(UserError):
        images.load_cifar10(str(tmp_path), seed=1)


def image_folder(path: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"")
    return path


def test_a_listing_has_sorted_classes_and_files(tmp_path: Path) -> None:
    names = ("train/b/2.JPEG", "train/b/1.png", "train/a/x.jpg", "train/a/.x.jpg", "val/b/v.jpeg")
    found = images.load_imagenet(
        str(image_folder(tmp_path, (*names, "train/a/notes.txt"))), 8, seed=1
    )
    assert (found.classes, found.size) == (2, 8)
    assert isinstance(found.train, images.ImageFolder)
    assert isinstance(found.test, images.ImageFolder)
    assert found.train.names == ["train/a/x.jpg", "train/b/1.png", "train/b/2.JPEG"]
    assert found.train.labels.tolist() == [0, 1, 1]
    assert (found.test.names, found.test.labels.tolist()) == (["val/b/v.jpeg"], [1])


@pytest.mark.parametrize(
    "names",
    [
        ("train/a/x.jpg",),
        ("train/x.jpg", "val/a/x.jpg"),
        ("train/a/x.txt", "val/a/x.jpg"),
        ("train/a/x.jpg", "val/a/x.txt"),
        ("train/a/x.jpg", "val/c/x.jpg"),
    ],
)
def test_a_folder_that_is_no_image_folder(tmp_path: Path, names: tuple[str, ...]) -> None:
    with sentences.refuses(UserError):
        images.load_imagenet(str(image_folder(tmp_path, names)), 8, seed=1)


def test_crops_lie_within_the_image() -> None:
    rng = np.random.default_rng(0)
    for size in ((500, 375), (3, 900), (1, 1)):
        for _ in range(50):
            left, top, right, bottom = images.random_resized_crop(size, rng)
            assert 0 <= left < right <= size[0]
            assert 0 <= top < bottom <= size[1]
    assert images.center_crop((256, 512)) == (16, 144, 240, 368)


def test_cifar_for_a_network_of_imagenet_says_which_model_is_for_it(tmp_path: Path) -> None:
    cifar_folder(tmp_path)
    with sentences.refuses(UserError):
        images.load_imagenet(str(tmp_path), 8, seed=1)
