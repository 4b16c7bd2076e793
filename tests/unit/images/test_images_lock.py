"""images.lock: what is written is read again, whatever is in it, and however many write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.core.errors import RunnerError
from runners.images.store import images_lock
from runners.images.store.images_lock import LockedImage

from .. import sentences

ONE = LockedImage("a.sif", "oras://x/a:1", "sha256:" + "0" * 64, 5, "2026-11-21T10:00:00Z")


def test_what_was_recorded_is_read(tmp_path: Path) -> None:
    path = tmp_path / images_lock.FILE
    odd = replace(ONE, name="b.sif", source='docker://x/ "quoted" \\ back \t\x7fä\n')
    assert images_lock.read(path) == ()
    images_lock.record(path, odd)
    images_lock.record(path, ONE)
    assert images_lock.read(path) == (ONE, odd)
    assert images_lock.find(path, "a.sif") == ONE
    assert images_lock.find(path, "c.sif") is None
    assert [file.name for file in tmp_path.iterdir()] == [images_lock.FILE]


def test_the_same_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / images_lock.FILE
    images_lock.record(path, ONE)
    images_lock.record(path, replace(ONE, size=6))
    assert images_lock.read(path) == (replace(ONE, size=6),)


def test_parallel_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / images_lock.FILE
    entries = [replace(ONE, name=f"{number:02}.sif") for number in range(40)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda entry: images_lock.record(path, entry), entries))
    assert list(images_lock.read(path)) == entries


@pytest.mark.parametrize(
    ("content", "id"),
    [
        ("[[image]\n", "toml-malformed"),
        ("[launch]\n", "table-invalid"),
        ("image = 1\n", "table-invalid"),
        ("[[image]]\nname = 'a'\n", "table-invalid"),
        (images_lock.text([ONE]).replace("size = 5", 'size = "5"'), "table-invalid"),
        (images_lock.text([ONE]).replace("sha256:0", "sha256:x"), "table-invalid"),
        (images_lock.text([ONE]).replace("a.sif", "../../../home/ada/x.sif"), "table-invalid"),
        ("a = " + "[" * 4000, "toml-malformed"),
    ],
)
def test_a_malformed_file_is_refused_and_kept(tmp_path: Path, content: str, id: str) -> None:
    path = tmp_path / images_lock.FILE
    path.write_text(content)
    with sentences.raises(id):
        images_lock.record(path, ONE)
    assert path.read_text() == content


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with sentences.raises("file-not-written"):
        images_lock.record(tmp_path / "no" / images_lock.FILE, ONE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=200), st.text(alphabet="[]{}=\"'.,\n\ta:1-", max_size=120)))
def test_a_lock_of_any_bytes_is_read_or_refused(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / images_lock.FILE
    whole = images_lock.text(
        [images_lock.LockedImage("a.sif", "oras://x/a:1", "sha256:" + "0" * 64, 5, "2026")]
    )
    raw = content.encode() if isinstance(content, str) else content
    for text in (raw, whole.encode() + raw, whole.encode().replace(b"a.sif", raw)):
        path.write_bytes(text)
        with suppress(RunnerError):
            for entry in images_lock.read(path):
                assert "/" not in entry.name
