"""Made-up datasets can be learnt; what differs from known checksums is found and named."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from runners.core.errors import NotFound, Refused, UsageError
from runners.core.progress import Progress
from runners.data import catalogue, manifest, synth
from runners.data import check as checking
from runners.data.catalogue import CatalogueEntry, DatasetFile
from runners.data.check import DatasetCheck
from runners.data.synth import CIFAR_FOLDER, CIFAR_PIXELS

from ..tables import each

QUIET = Progress()
SMALL = synth.SyntheticSpec(60, size=8)


@each(0o002, 0o077)
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


def check(path: Path) -> DatasetCheck:
    return checking.examine(path, QUIET)


@each(
    ("mnist", "mnist", 4),
    ("cifar10", "cifar10", 6),
    ("imagenet", "imagefolder", 72),
    ("tokens", "tokens", 3),
)
def test_a_kind_is_told_by_its_files(tmp_path: Path, kind: str, called: str, files: int) -> None:
    report = check(made(kind, tmp_path))
    assert (report.kind, report.facts["files"], report.faults) == (called, files, [])
    assert report.facts["checksums"] == "none are known"
    assert report.verdict.startswith("not checked: ")


def test_the_verdict_is_that_of_the_checksums(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    manifest.write(manifest.of_folder(folder, "mnist", QUIET), folder)
    assert check(folder).verdict == "ok: all files have their checksums"
    next(folder.glob("t10k*")).write_bytes(b"cut")
    assert check(folder).verdict == "damaged"


@each(*synth.KINDS)
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


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_checksums_of_a_manifest(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    manifest.write(manifest.of_folder(folder, "mnist", QUIET), folder)
    assert check(folder).faults == []
    write(folder / "train-images-idx3-ubyte", 100, b"!!")
    (folder / "more").touch()
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"")
    (folder / "train-labels-idx1-ubyte").unlink()
    found = dict(check(folder).faults)
    assert found["more"] == "not in manifest.json"
    assert found["t10k-labels-idx1-ubyte"] == "0 bytes instead of 20"
    assert found["train-labels-idx1-ubyte"] == "missing"
    assert "its SHA-256 is not" in found["train-images-idx3-ubyte"]


def test_a_manifest_of_others_is_none(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    (folder / manifest.FILE).write_text(json.dumps({"name": "x"}))
    assert check(folder).faults == []


def test_mnist_that_is_not_the_published_one(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    for path in list(folder.iterdir()):
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    report = check(folder)
    assert report.facts["checksums"] == "of mnist, as published"
    assert len(report.faults) == 4
    next(folder.iterdir()).unlink()
    assert "missing" in [what for _, what in check(folder).faults]


def test_of_two_datasets_with_the_same_names_the_nearer_one_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("mnist", tmp_path)
    (folder / manifest.FILE).unlink(missing_ok=True)
    shas = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

    def entry(name: str, sha256: str) -> CatalogueEntry:
        wrong = {"t10k-labels-idx1-ubyte": sha256}
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        files = ((f"https://a/{n}", {**shas, **wrong}[n], sizes[n]) for n in shas)
        return CatalogueEntry(
            name, "", tuple(DatasetFile((url,), sha, size) for url, sha, size in files)
        )

    right = entry("other", shas["t10k-labels-idx1-ubyte"])
    known = {"mnist": entry("mnist", "0" * 64), "other": right}
    monkeypatch.setattr(catalogue, "shipped", lambda: known)
    report = check(folder)
    assert (report.facts["checksums"], report.faults) == ("of other, as published", [])


def test_an_unknown_kind_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert check(tmp_path).kind == "unknown"
    with pytest.raises(NotFound):
        check(tmp_path / "nothing")
    assert "not a squashfs file" in check(tmp_path / "x").faults[0][1]


@each(
    ("mnist", synth.SyntheticSpec(0), "--samples 0 must be 1 or more"),
    ("mnist", synth.SyntheticSpec(5, classes=11), "--classes 11 must be 1 to 10"),
    ("imagenet", synth.SyntheticSpec(5, size=0), "--size 0"),
    ("tokens", synth.SyntheticSpec(5, vocabulary=70_000), "--vocabulary"),
)
def test_numbers_that_make_no_dataset(
    tmp_path: Path, kind: str, asked: synth.SyntheticSpec, words: str
) -> None:
    with pytest.raises(UsageError) as error:
        synth.write(kind, tmp_path / "x", asked)
    assert words in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = made("tokens", tmp_path)
    before = manifest.of_folder(folder, "", QUIET)
    with pytest.raises(Refused, match="already exists"):
        made("tokens", tmp_path)
    assert manifest.of_folder(folder, "", QUIET) == before
