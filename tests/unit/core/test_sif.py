"""Reading a SIF's own table, on files made here byte by byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from runners.core import sif
from runners.images import local_image
from runners.images.facts import image_labels

from .. import sentences


def make_sif(
    path: Path,
    labels: dict[str, str] | None,
    cut: int = 0,
    more: Sequence[tuple[int, bytes]] = (),
) -> Path:
    """Write a SIF with a partition of 4096 bytes and, if given, the metadata of its labels.

    `more` are objects by their type.
    """
    content = [(sif.PARTITION, b"FS", b"\x00" * 4096), *((kind, b"", body) for kind, body in more)]
    if labels is not None:
        metadata = json.dumps({"data": {"attributes": {"labels": labels}}}).encode()
        content.insert(0, (sif.GENERIC_JSON, sif.METADATA.encode(), metadata))
    table = sif.HEADER.size
    offset = table + sif.DESCRIPTOR.size * len(content)
    head = (b"#!run", sif.MAGIC, b"01", b"02", b"", 0, 0, 0, len(content), table, 0, offset, 0)
    blob, data = sif.HEADER.pack(*head), b""
    for number, name, body in content:
        place = (offset + len(data), len(body), len(body))
        blob += sif.DESCRIPTOR.pack(number, True, 1, 1, 0, *place, 0, 0, 0, 0, name, b"")
        data += body
    whole = blob + data
    path.write_bytes(whole[: len(whole) - cut])
    return path


def test_labels_are_read(tmp_path: Path) -> None:
    image = make_sif(tmp_path / "a.sif", {"horovod.version": "0.28.1"})
    assert image_labels.read(image).labels == {"horovod.version": "0.28.1"}


@pytest.mark.parametrize(
    ("cut", "words"), [(100, "truncated"), (5000, "truncated within"), (5500, "")]
)
def test_a_cut_image_is_refused(tmp_path: Path, cut: int, words: str) -> None:
    image = make_sif(tmp_path / "a.sif", {}, cut=cut)
    with sentences.raises("image-unusable") as error:
        image_labels.read(image)
    assert words in error.value.evidence


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\necho hello\n" * 100])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.sif").write_bytes(content)
    with sentences.raises("image-unusable"):
        image_labels.read(tmp_path / "b.sif")


def test_a_missing_image_offers_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    (tmp_path / "images").mkdir()
    make_sif(tmp_path / "images" / "horovod_cpu.sif", {})
    assert local_image.find("horovod_cpu.sif") == tmp_path / "images" / "horovod_cpu.sif"
    with sentences.raises("image-missing", "--image horovod_cpu.sif"):
        local_image.find("horovod-cpu.sif")


def test_a_uri_is_not_taken() -> None:
    with sentences.raises("image-not-pulled", "runner pull docker://debian"):
        local_image.find("docker://debian")


def test_a_folder_that_is_no_sandbox_is_refused(tmp_path: Path) -> None:
    with sentences.raises("image-not-sandbox"):
        image_labels.read(tmp_path)


@pytest.mark.parametrize(
    "text", ["3", "[1]", "null", '{"data": 3}', '{"data": {"attributes": {"labels": [1]}}}']
)
def test_damaged_labels_are_refused(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", lambda value: text)
        image = make_sif(tmp_path / "a.sif", {})
    with sentences.raises("image-unusable"):
        image_labels.read(image)
