"""Reading MNIST, good and bad, and splitting digits."""

from __future__ import annotations

import contextlib
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recipes import digits
from recipes.distributed import UserError
from runners.data import synth

from .. import sentences

GENERATOR = np.random.default_rng(1)
PARTS = {
    "x_train": GENERATOR.integers(0, 256, (12, 5, 4), np.uint8),
    "y_train": GENERATOR.integers(0, 10, 12, np.uint8),
    "x_test": GENERATOR.integers(0, 256, (6, 5, 4), np.uint8),
    "y_test": GENERATOR.integers(0, 10, 6, np.uint8),
}


def idx(array: NDArray[Any]) -> bytes:
    return synth.idx_header(array.shape) + array.tobytes()


def write_idx(folder: Path, rename: Any = str, pack: Any = bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in synth.IDX_NAMES.items():
        (folder / rename(name)).write_bytes(pack(idx(PARTS[part])))


def message(folder: Path) -> str:
    with sentences.refuses(UserError) as caught:
        digits.load(str(folder))
    return str(caught.value)


def assert_is_the_data(data: digits.Digits) -> None:
    assert data.x_train.dtype == np.float32
    assert np.array_equal(np.rint(data.x_train * 255), PARTS["x_train"])
    assert np.array_equal(np.rint(data.x_test * 255), PARTS["x_test"])
    assert np.array_equal(data.y_train, PARTS["y_train"])
    assert np.array_equal(data.y_test, PARTS["y_test"])
    assert (data.height, data.width) == (5, 4)
    assert data.classes == 1 + max(PARTS["y_train"].max(), PARTS["y_test"].max())


# Good folders


@pytest.mark.parametrize(
    ("below", "rename", "pack"),
    [
        ("", str, bytes),
        ("", lambda name: f"{name}.gz", gzip.compress),
        ("", lambda name: name.replace("-idx", ".idx"), bytes),
        ("", lambda name: f"{name}.gz", bytes),  # unpacked by hand
        ("MNIST/raw", str, bytes),  # where torchvision puts it
    ],
)
def test_idx_by_any_name(tmp_path: Path, below: str, rename: Any, pack: Any) -> None:
    write_idx(tmp_path / below, rename, pack)
    assert_is_the_data(digits.load(str(tmp_path)))


def test_keras_npz(tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").write_bytes(npz())
    assert_is_the_data(digits.load(str(tmp_path)))


def test_reading_changes_nothing(tmp_path: Path) -> None:
    write_idx(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    digits.load(str(tmp_path))
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


# Bad folders


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert str(tmp_path / "no") in message(tmp_path / "no")


def test_folder_without_data_lists_what_was_looked_for(tmp_path: Path) -> None:
    text = message(tmp_path)
    assert all(name in text for name in ["mnist.npz", *synth.IDX_NAMES.values()])


def test_one_file_missing(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert "t10k-labels-idx1-ubyte" in message(tmp_path)


IMAGES = idx(PARTS["x_train"])


@pytest.mark.parametrize(
    "content",
    [
        IMAGES[:-1],
        IMAGES + b"x",
        IMAGES[:10],
        IMAGES[:3],
        b"",
        idx(PARTS["y_train"]),
        b"<!DOCTYPE html><html>Sign in</html>",
        IMAGES[:4] + b"\xff" * 12,
        gzip.compress(IMAGES, mtime=0)[:-9],
        gzip.compress(IMAGES, mtime=0)[:40],
        b"\x1f\x8b" + b"\x00" * 40,
        gzip.compress(IMAGES, mtime=0)[:12] + b"\xff" * 90,
        idx(PARTS["x_train"][:11]),
        idx(PARTS["x_train"][:, :4]),
        idx(PARTS["x_train"][:0]),
    ],
)
def test_bad_idx_file(tmp_path: Path, content: bytes) -> None:
    write_idx(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    assert str(tmp_path) in message(tmp_path)


def test_idx_folder_in_place_of_a_file(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    (tmp_path / "train-images-idx3-ubyte").mkdir()
    assert "train-images-idx3-ubyte" in message(tmp_path)


def npz(**changes: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{**PARTS, **changes})
    return stream.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        npz()[:300],
        npz()[:-1],
        b"",
        b"not a zip",
        zipped("x_train.npy", b"no array"),
        npz(y_train=np.array(b"text")),
        zipped("other.npy", b""),
        npz(y_test=np.array([object()] * 6)),  # would be a pickle
        npz(x_train=PARTS["x_train"].astype(np.float64)),
        npz(y_train=PARTS["y_train"].astype(np.float32)),
        npz(y_train=PARTS["y_train"][:5]),
        npz(x_test=PARTS["x_test"][0]),
        npz(y_test=np.full(6, -1)),
        npz(y_test=np.full(6, 10**9)),
    ],
)
def test_bad_npz(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mnist.npz").write_bytes(content)
    assert str(tmp_path) in message(tmp_path)


def test_npz_with_a_flipped_byte_is_read_or_refused(tmp_path: Path) -> None:
    for place in range(0, 1200, 37):
        content = bytearray(npz())
        content[place % len(content)] ^= 0x5A
        (tmp_path / "mnist.npz").write_bytes(content)
        with contextlib.suppress(UserError):  # any other error fails the test
            assert digits.load(str(tmp_path)).x_train.shape == (12, 5, 4), place


# scikit-learn's digits


def test_the_file_is_read_without_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "sklearn" / "datasets" / "data"
    data.mkdir(parents=True)
    (tmp_path / "sklearn" / "__init__.py").write_text("raise SystemExit('imported')")
    rows = np.hstack([np.tile(np.arange(64) % 17, (40, 1)), np.repeat(np.arange(10), 4)[:, None]])
    with gzip.open(data / "digits.csv.gz", "wt") as file:
        np.savetxt(file, rows, delimiter=",", fmt="%d")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = digits.load(None)
    assert loaded.x_train.shape == (30, 8, 8)
    assert loaded.x_train[0, 0].tolist() == [value / 16 for value in range(8)]
    assert np.bincount(loaded.y_train).tolist() == [3] * 10


def test_without_scikit_learn_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with sentences.refuses(UserError):
        digits.load(None)


def test_a_label_out_of_range_is_named_with_its_place(tmp_path: Path) -> None:
    labels = PARTS["y_train"].copy()
    labels[[7, 9]] = 200
    (tmp_path / "mnist.npz").write_bytes(npz(y_train=labels))
    assert "sample 7 has the label 200" in message(tmp_path)


def test_sets_with_more_classes_are_read(tmp_path: Path) -> None:
    labels = np.arange(1, 13, dtype=np.uint8)  # EMNIST's letters begin with 1
    (tmp_path / "mnist.npz").write_bytes(npz(y_train=labels, y_test=labels[:6]))
    assert digits.load(str(tmp_path)).classes == 13


def test_split_is_fixed_stratified_and_complete() -> None:
    labels = np.repeat(np.arange(10), np.arange(20, 120, 10))
    train, test = digits.stratified_split(labels, 0.2, seed=1)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert np.array_equal(np.bincount(labels[test]), np.bincount(labels) // 5)
    assert np.array_equal(test, digits.stratified_split(labels, 0.2, seed=1)[1])
