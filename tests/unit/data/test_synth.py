"""Synthetic datasets: learnable, the same bytes for the same request, nothing overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.core.progress import Progress
from runners.data import manifest, synth
from runners.data.synth import CIFAR_FOLDER, CIFAR_PIXELS

from .. import sentences

QUIET = Progress()
SMALL = synth.SyntheticSpec(60, size=8)


@pytest.mark.parametrize("mask", [0o002, 0o077])
def test_a_dataset_is_as_open_as_the_umask_says(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        made("imagenet", tmp_path)
    finally:
        os.umask(before)
    for folder in (tmp_path / "imagenet", tmp_path / "imagenet" / "train"):
        assert folder.stat().st_mode & 0o777 == 0o777 & ~mask


def made(kind: str, folder: Path, asked: synth.SyntheticSpec = SMALL) -> Path:
    synth.write(kind, folder / kind, asked)
    return folder / kind


@pytest.mark.parametrize(
    ("kind", "files"), [("mnist", 4), ("cifar10", 6), ("imagenet", 72), ("tokens", 3)]
)
def test_a_kind_has_the_files_of_the_real_one(tmp_path: Path, kind: str, files: int) -> None:
    assert len(list(manifest.names(made(kind, tmp_path)))) == files


@pytest.mark.parametrize("kind", synth.KINDS)
def test_the_same_request_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    one, again = (made(kind, tmp_path / name) for name in ("1", "2"))
    assert manifest.of_folder(one, "", QUIET).files == manifest.of_folder(again, "", QUIET).files


def test_classes_can_be_told_apart(tmp_path: Path) -> None:
    """The nearest mean of the training images names the class of every test image."""
    inner = made("cifar10", tmp_path, synth.SyntheticSpec(200)) / CIFAR_FOLDER

    def records(pattern: str) -> list[bytes]:
        data = b"".join(path.read_bytes() for path in sorted(inner.glob(pattern)))
        size = 1 + CIFAR_PIXELS
        return [data[at : at + size] for at in range(0, len(data), size)]

    known = {record[0]: record[1:] for record in records("data_batch_*.bin")}
    for record in records("test_batch.bin"):
        distances = {
            label: sum(abs(a - b) for a, b in zip(record[1::7], image[::7]))
            for label, image in known.items()
        }
        assert min(distances, key=lambda label: distances[label]) == record[0]


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("mnist", synth.SyntheticSpec(0)),
        ("mnist", synth.SyntheticSpec(5, classes=11)),
        ("imagenet", synth.SyntheticSpec(5, size=0)),
        ("tokens", synth.SyntheticSpec(5, vocabulary=70_000)),
    ],
)
def test_numbers_that_make_no_dataset(
    tmp_path: Path, kind: str, asked: synth.SyntheticSpec
) -> None:
    with sentences.raises("synth-number"):
        synth.write(kind, tmp_path / "x", asked)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = made("tokens", tmp_path)
    before = manifest.of_folder(folder, "", QUIET)
    with sentences.raises("synth-folder-exists"):
        made("tokens", tmp_path)
    assert manifest.of_folder(folder, "", QUIET) == before
