"""Lock files in a folder where others write too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.core import locks

from .. import sentences
from ..listener import Said


def test_the_lock_is_no_link_to_another_file(tmp_path: Path) -> None:
    precious, lock = tmp_path / "precious", tmp_path / "lock"
    precious.write_text("mine")
    lock.symlink_to(precious)
    with (
        sentences.raises("file-not-written"),
        locks.exclusive(lock, Said(), "is at work"),
    ):
        pass
    assert precious.read_text() == "mine"


@pytest.mark.parametrize(("folder", "wanted"), [(0o755, 0o600), (0o775, 0o660), (0o1777, 0o666)])
def test_only_who_may_write_there_may_hold_it(tmp_path: Path, folder: int, wanted: int) -> None:
    place, before = tmp_path / "images", os.umask(0)
    try:
        place.mkdir()
        place.chmod(folder)
        with locks.exclusive(place / "lock", Said(), "is at work"):
            assert (place / "lock").stat().st_mode & 0o777 == wanted
    finally:
        os.umask(before)
