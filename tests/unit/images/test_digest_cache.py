"""The digest of a large file is remembered, and only while the file is the same."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from runners.core import digest as file_digest
from runners.images.facts import digest_cache

from .. import sentences

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def old(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as at rest the moment it is written."""
    monkeypatch.setattr(digest_cache, "REST", -1)
    path = here / "a.sif"
    path.write_bytes(b"content")
    return path


def test_a_digest_is_remembered_and_an_altered_file_is_not(old: Path) -> None:
    first = digest_cache.digest(old)
    assert digest_cache.recall(old) == first
    times = (old.stat().st_atime_ns, old.stat().st_mtime_ns)
    old.write_bytes(b"CONTENT")
    os.utime(old, ns=times)
    assert not digest_cache.recall(old)
    assert digest_cache.digest(old) != first


def test_a_file_put_in_its_place_is_another(old: Path) -> None:
    digest_cache.digest(old)
    new = old.with_name("b.sif")
    new.write_bytes(b"CONTENT")
    os.utime(new, ns=(0, old.stat().st_mtime_ns))
    new.replace(old)
    assert not digest_cache.recall(old)


def test_a_file_just_written_is_not_remembered(here: Path) -> None:
    path = here / "a.sif"
    path.write_bytes(b"content")
    digest_cache.digest(path)
    assert not digest_cache.recall(path)
    assert digest_cache.at_rest(digest_cache.stamp(path), time.time() + digest_cache.REST + 1)


@pytest.fixture
def touched(old: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often something happens to the file at the end of each read: links are made to it."""
    left, read = [0], file_digest.sha256

    def read_and_link(path: Path, progress: None) -> str:
        found = read(path)
        if left[0]:
            os.link(path, path.with_name(f"{left[0]}.sif"))
            left[0] -= 1
        return found

    monkeypatch.setattr(file_digest, "sha256", read_and_link)
    return left


def test_a_link_to_a_file_that_is_read_does_no_harm(old: Path, touched: list[int]) -> None:
    touched[0] = 2
    assert digest_cache.digest(old) == f"sha256:{hashlib.sha256(b'content').hexdigest()}"
    assert digest_cache.recall(old), "remembered by the stamp of the read that counted"


def test_a_file_that_goes_on_changing_has_no_digest(old: Path, touched: list[int]) -> None:
    touched[0] = digest_cache.READS
    with sentences.raises("image-changing"):
        digest_cache.digest(old)
    assert not digest_cache.recall(old)


def test_memory_that_others_could_write_is_not_trusted(old: Path) -> None:
    digest_cache.digest(old)
    for file in digest_cache.folder().iterdir():
        assert file.stat().st_mode & 0o077 == 0
        file.chmod(0o666)
    assert not digest_cache.recall(old)


def test_half_a_memory_is_none(old: Path) -> None:
    digest_cache.digest(old)
    for file in digest_cache.folder().iterdir():
        file.write_text('{"stamp": [')
    assert digest_cache.digest(old).startswith("sha256:")


def test_a_file_that_cannot_be_read(here: Path) -> None:
    with sentences.raises("image-unreadable"):
        digest_cache.digest(here)
