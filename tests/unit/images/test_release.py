"""A release: what its list says, and which list is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.core import digest
from runners.core.errors import NotFound, NotVerified, Refused
from runners.core.progress import Listener
from runners.core.version import __version__
from runners.images.release import prebuilt, publish, release
from runners.images.release.release import Release, ReleasedImage
from runners.images.trust import pgp

from ..tables import each

CPU = ReleasedImage("horovod_cpu", "amd64", "sha256:" + "a" * 64, 5)
RELEASE = Release("1.2", "0" * 40, (CPU,))


def test_a_release_is_read_as_it_was_written() -> None:
    assert release.read(release.written(RELEASE), "1.2", "it") == RELEASE


@each(
    ({"version": "1.1"}, NotVerified, "another release than the one asked for"),
    ({"form": 1}, Refused, "it is of form 1\n  this runner reads form 2"),
    ({"form": None}, Refused, "it is of form None"),
    ({"more": 1}, Refused, "unknown key more"),
    ({"images": [{"name": "x", "digest": "md5:1"}]}, Refused, "digest"),
)
def test_a_file_that_is_no_such_release(
    change: dict[str, object], error: type[Exception], says: str
) -> None:
    raw = json.dumps({**json.loads(release.written(RELEASE)), **change}).encode()
    with pytest.raises(error) as refused:
        release.read(raw, "1.2", "it")
    assert says in str(refused.value)


@each(b"", b"[]", b"5", b"\xff")
def test_a_file_that_is_none(raw: bytes) -> None:
    with pytest.raises(Refused, match="it is not a JSON object"):
        release.read(raw, "1.2", "it")


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
        release.verified(prebuilt.ReleaseSource(), plain=False)
    assert str(none.value.remedies[-1]) == "runner build cpu"
    with pytest.raises(Refused, match="no public key is known") as no_key:
        release.verified(prebuilt.ReleaseSource(str(tmp_path), "", "runner.toml"), plain=False)
    assert "the source is from runner.toml" in str(no_key.value)


def test_a_folder_without_this_release_says_which_it_has(tmp_path: Path) -> None:
    (tmp_path / prebuilt.file_of("1.0")).touch()
    with pytest.raises(NotFound) as missing:
        release.Folder(tmp_path).signed("1.2")
    assert "has no release 1.2" in str(missing.value)
    assert "it has 1.0" in str(missing.value)


def test_a_release_in_a_folder_is_mirrored_with_its_signature_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNNER_SITE", "none")
    monkeypatch.setenv("RUNNER_IMAGES_KEY", str(tmp_path / "own.asc"))
    monkeypatch.setattr(pgp, "verify", lambda *_: ("Ada", "the key of Ada"))
    image = ReleasedImage("horovod_cpu", "amd64", digest.of_bytes(b"image"), 5)
    made, listed = Release(__version__, "0" * 40, (image,)), prebuilt.file_of(__version__)
    content = {made.file(image): b"image", listed: release.written(made), f"{listed}.asc": b"Ada"}
    Path("source").mkdir()
    for name, raw in content.items():
        Path("source", name).write_bytes(raw)
    done = publish.mirror("copy", "source", False, Listener())
    assert (done.origin.signer, done.target.text) == ("Ada", f"{tmp_path}/copy")
    copied = {path.name: path.read_bytes() for path in Path("copy").iterdir()}
    assert copied == {**content, prebuilt.KEY_FILE: b"the key of Ada"}
    with pytest.raises(Refused, match="is the source itself"):
        publish.mirror("source", "source", False, Listener())
