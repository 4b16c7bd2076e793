"""A release: what its file says, and that only what builders made alike gets into one."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from runners.core.errors import NotFound, NotVerified, Refused
from runners.images import prebuilt
from runners.release import compare, folder, provenance, read, record
from runners.release.record import Published, Record


class Quiet:
    def say(self, text: str) -> None: ...
    def begin(self, what: str, total: int | None = None) -> None: ...
    def at(self, done: int) -> None: ...


QUIET = Quiet()
DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
CPU = Published("horovod_cpu", "amd64", DIGEST, 5, OTHER, ("a", "b"), {"lock": DIGEST})
RELEASE = Record("1.2", "0" * 40, (CPU,))


def test_a_release_is_read_as_it_was_written() -> None:
    assert record.read(record.written(RELEASE), "1.2", "it") == RELEASE


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"version": "1.1"}, NotVerified, "another release than the one asked for"),
        ({"form": 2}, Refused, "it is of form 2\n  this runner reads form 1"),
        ({"form": None}, Refused, "it is of form None"),
        ({"more": 1}, Refused, "unknown key more"),
        ({"images": [{"name": "x", "digest": "md5:1"}]}, Refused, "digest"),
    ],
)
def test_a_file_that_is_no_such_release(
    change: dict[str, object], error: type[Exception], says: str
) -> None:
    raw = json.dumps({**json.loads(record.written(RELEASE)), **change}).encode()
    with pytest.raises(error) as refused:
        record.read(raw, "1.2", "it")
    assert says in str(refused.value)


@pytest.mark.parametrize("raw", [b"", b"[]", b"5", b"\xff"])
def test_a_file_that_is_none(raw: bytes) -> None:
    with pytest.raises(Refused, match="it is no JSON object"):
        record.read(raw, "1.2", "it")


def test_an_architecture_that_was_not_published_is_refused() -> None:
    assert RELEASE.image("horovod_cpu", "amd64") is CPU
    with pytest.raises(Refused) as refused:
        RELEASE.image("horovod_cpu", "arm64")
    assert "release 1.2 has no horovod_cpu for arm64\n  it was published for amd64" in str(
        refused.value
    )
    with pytest.raises(Refused, match="no horovod_gpu for amd64"):
        RELEASE.image("horovod_gpu", "amd64")


def test_without_a_source_or_a_key_nothing_is_pulled(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no source of prebuilt images is set") as none:
        read.release(prebuilt.Place(), plain=False)
    assert str(none.value.remedies[-1]) == "runner build cpu"
    with pytest.raises(Refused, match="no public key is known") as no_key:
        read.release(prebuilt.Place(str(tmp_path), "", "runner.toml"), plain=False)
    assert "the source is from runner.toml" in str(no_key.value)


def test_a_folder_without_this_release_says_which_it_has(tmp_path: Path) -> None:
    (tmp_path / prebuilt.file_of("1.0")).touch()
    with pytest.raises(NotFound) as missing:
        folder.Folder(tmp_path).signed("1.2")
    assert "has no release 1.2" in str(missing.value)
    assert "it has 1.0" in str(missing.value)


Maker = Callable[..., Path]


@pytest.fixture
def prepared(tmp_path: Path) -> Maker:
    """Makes a builder's folder with the CPU image."""

    def make(builder: str, content: bytes = b"image", lock: str = "lock", **more: str) -> Path:
        place = tmp_path / f"{builder}-{len(list(tmp_path.iterdir()))}"
        place.mkdir()
        stem = place / "horovod_cpu-1.2-amd64"
        digest = hashlib.sha256(content).hexdigest()
        stem.with_name(f"{stem.name}.sif").write_bytes(content)
        stem.with_name(f"{stem.name}.lock").write_text(lock)
        stem.with_name(f"{stem.name}.cdx.json").write_text("{}")
        index = json.dumps({"manifests": [{"digest": f"sha256:{digest}"}]}).encode()
        with tarfile.open(stem.with_name(f"{stem.name}.oci.tar"), "w") as archive:
            entry = tarfile.TarInfo("index.json")
            entry.size = len(index)
            archive.addfile(entry, BytesIO(index))
        statement = provenance.statement(
            subject={f"{stem.name}.sif": f"sha256:{digest}"},
            source=more.get("source", "0" * 40),
            version="1.2",
            image="horovod_cpu",
            builder=builder,
            finished="2026-11-25T00:00:00Z",
            lock=DIGEST,
            packages=["pkg:pypi/torch@2"],
            proof="2 ranks agree",
        )
        stem.with_name(f"{stem.name}.intoto.json").write_text(json.dumps(statement))
        return place

    return make


def test_two_builders_who_made_the_same_are_a_release(prepared: Maker) -> None:
    found, images = compare.release([prepared("one"), prepared("two")], QUIET)
    assert (found.version, found.revision) == ("1.2", "0" * 40)
    (image,) = found.images
    assert (image.name, image.architecture, image.builders) == (
        "horovod_cpu",
        "amd64",
        ("one", "two"),
    )
    assert image.digest == f"sha256:{hashlib.sha256(b'image').hexdigest()}"
    assert image.size == len(b"image")
    assert [each.builder for each in images["horovod_cpu-1.2-amd64"]] == ["one", "two"]


def test_builders_who_differ_are_shown_with_what_differs(prepared: Maker) -> None:
    with pytest.raises(NotVerified) as differ:
        compare.release([prepared("one"), prepared("two", b"other", lock="newer")], QUIET)
    said = str(differ.value)
    assert "the builders of horovod_cpu-1.2-amd64 differ" in said
    for content in (b"image", b"other"):
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" in said
    assert "their lock differ" in said
    with pytest.raises(NotVerified, match="lock and bill of materials agree"):
        compare.release([prepared("one"), prepared("two", b"other")], QUIET)


def test_a_file_that_was_exchanged_is_noticed(prepared: Maker) -> None:
    second = prepared("two")
    (second / "horovod_cpu-1.2-amd64.sif").write_bytes(b"tampered")
    with pytest.raises(NotVerified, match=r"\.sif is not what two built"):
        compare.release([prepared("one"), second], QUIET)


@pytest.mark.parametrize("builders", [["one"], ["one", "one"]])
def test_one_builder_is_not_enough(prepared: Maker, builders: list[str]) -> None:
    with pytest.raises(Refused, match="was built by one alone: one"):
        compare.release(list(map(prepared, builders)), QUIET)


def test_a_folder_without_a_prepared_image(prepared: Maker, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no prepared image"):
        compare.release([prepared("one"), tmp_path], QUIET)
    broken = prepared("two")
    (broken / "horovod_cpu-1.2-amd64.intoto.json").write_text("{}")
    with pytest.raises(Refused, match="is no provenance of ours"):
        compare.release([prepared("one"), broken], QUIET)
    missing = prepared("two")
    (missing / "horovod_cpu-1.2-amd64.sif").unlink()
    with pytest.raises(NotFound, match=r"\.sif is missing"):
        compare.release([prepared("one"), missing], QUIET)
