"""Made-up datasets are whole, can be learnt, and each damage to them is found and named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Callable

import pytest

from runners.core.errors import NotFound, Refused, UsageError
from runners.core.progress import Progress
from runners.data import catalogue, manifest, synth, verify
from runners.data.catalogue import DatasetFile, Entry
from runners.data.check import Report
from runners.data.formats import CIFAR_BINARY, CIFAR_RECORD

from .test_fetch import Quiet

QUIET: Progress = Quiet()
SMALL = synth.SyntheticSpec(60, size=8)


def made(kind: str, folder: Path, asked: synth.SyntheticSpec = SMALL) -> Path:
    synth.write(kind, folder / kind, asked)
    return folder / kind


def check(path: Path) -> Report:
    return verify.examine(path, QUIET)


@pytest.mark.parametrize(
    ("kind", "called", "fact", "value"),
    [
        ("mnist", "mnist", "training images", "60 x 28 x 28"),
        ("cifar10", "cifar10", "test images", "12 x 3 x 32 x 32"),
        ("imagenet", "imagefolder", "train images", 60),
        ("tokens", "tokens", "train tokens", 60),
    ],
)
def test_what_is_made_up_is_whole(
    tmp_path: Path, kind: str, called: str, fact: str, value: object
) -> None:
    report = check(made(kind, tmp_path))
    assert (report.kind, report.faults) == (called, [])
    assert report.facts[fact] == value


@pytest.mark.parametrize("kind", synth.KINDS)
def test_the_same_request_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    one, again = (made(kind, tmp_path / name) for name in ("1", "2"))
    assert manifest.of_folder(one, "", QUIET).files == manifest.of_folder(again, "", QUIET).files


def test_classes_can_be_told_apart(tmp_path: Path) -> None:
    """The nearest mean of the training images names the class of every test image."""
    inner = made("cifar10", tmp_path, synth.SyntheticSpec(200)) / CIFAR_BINARY

    def records(pattern: str) -> list[bytes]:
        data = b"".join(path.read_bytes() for path in sorted(inner.glob(pattern)))
        return [data[at : at + CIFAR_RECORD] for at in range(0, len(data), CIFAR_RECORD)]

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


def cut(path: Path, bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:bytes])


BATCH = "cifar-10-batches-bin/data_batch_1.bin"
DAMAGES: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("mnist", "train-images-idx3-ubyte", Path.unlink, "missing"),
    ("mnist", "train-images-idx3-ubyte", lambda p: write(p, 3, b"\1"), "no IDX header"),
    ("mnist", "train-images-idx3-ubyte", lambda p: cut(p, 10), "no IDX header"),
    ("mnist", "t10k-images-idx3-ubyte", lambda p: cut(p, 500), "promises 12 x 28 x 28 bytes, 484"),
    ("mnist", "train-labels-idx1-ubyte", lambda p: write(p, 9, b"\x0b"), "label 11 of image 1"),
    ("cifar10", BATCH, Path.unlink, "missing"),
    ("cifar10", BATCH, lambda p: cut(p, 4000), "no whole number of records"),
    ("cifar10", BATCH, lambda p: write(p, 3073, b"\x63"), "label 99 of image 1"),
    ("tokens", "train.bin", lambda p: cut(p, 7), "no whole number of tokens"),
    ("tokens", "val.bin", lambda p: write(p, 2, b"\xff\xff"), "token 65535 at 1 is not below 256"),
    ("tokens", "val.bin", Path.unlink, "missing"),
    ("tokens", "meta.json", lambda p: p.write_text("{}"), "has no vocabulary"),
    ("tokens", "meta.json", lambda p: p.write_text("[]"), "has no vocabulary"),
    ("tokens", "meta.json", lambda p: p.write_text('{"vocabulary": 3, "dtype": "x"}'), "dtype 'x'"),
    ("tokens", "meta.json", Path.unlink, "missing"),
]


@pytest.mark.parametrize(("kind", "file", "damage", "words"), DAMAGES)
def test_damage_is_found_and_named(
    tmp_path: Path, kind: str, file: str, damage: Callable[[Path], object], words: str
) -> None:
    folder = made(kind, tmp_path)
    damage(folder / file)
    (fault,) = check(folder).faults
    assert fault[0] == file
    assert words in fault[1]


def test_checksums_of_a_manifest(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    manifest.write(manifest.of_folder(folder, "mnist", QUIET), folder)
    assert check(folder).faults == []
    write(folder / "train-images-idx3-ubyte", 100, b"!!")
    (folder / "more").touch()
    found = dict(check(folder).faults)
    assert found["more"] == "not in manifest.json"
    assert "its SHA-256 is not" in found["train-images-idx3-ubyte"]


def test_a_manifest_of_others_is_none(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    (folder / manifest.FILE).write_text(json.dumps({"name": "x"}))
    assert check(folder).faults == []


def test_mnist_that_is_not_the_published_one(tmp_path: Path) -> None:
    folder = made("mnist", tmp_path)
    for path in list(folder.iterdir()):
        import gzip

        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    report = check(folder)
    assert report.facts["checksums"] == "of mnist, as published"
    assert len(report.faults) == 4


def test_of_two_datasets_with_the_same_names_the_nearer_one_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("mnist", tmp_path)
    (folder / manifest.FILE).unlink(missing_ok=True)
    shas = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

    def entry(name: str, sha256: str) -> Entry:
        wrong = {"t10k-labels-idx1-ubyte": sha256}
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        files = ((f"https://a/{n}", {**shas, **wrong}[n], sizes[n]) for n in shas)
        return Entry(name, "", tuple(DatasetFile((url,), sha, size) for url, sha, size in files))

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


@pytest.mark.parametrize(
    ("kind", "asked", "words"),
    [
        ("mnist", synth.SyntheticSpec(0), "--samples 0 must be 1 or more"),
        ("mnist", synth.SyntheticSpec(5, classes=11), "--classes 11 must be 1 to 10"),
        ("imagenet", synth.SyntheticSpec(5, size=0), "--size 0"),
        ("tokens", synth.SyntheticSpec(5, vocabulary=70_000), "--vocabulary"),
    ],
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
