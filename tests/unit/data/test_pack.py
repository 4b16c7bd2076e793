"""What of a folder is packed, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.data import pack

from .. import sentences


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two folders, two files and a link."""
    tree = tmp_path / "source"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "49").write_bytes(bytes(49))
    (tree / "a" / "b" / "odd\nname é").write_text("x")
    (tree / "link").symlink_to("a/49")
    return tree


def test_what_is_packed_is_counted(source: Path) -> None:
    assert pack.counted(source) == pack.Counted(3, 2, 49 + 1 + len("a/49"))


def test_what_cannot_be_packed_whole_is_named(source: Path, tmp_path: Path) -> None:
    (source / "out").symlink_to("/etc/passwd")
    (source / "up").symlink_to("../elsewhere")
    with sentences.raises("pack-links-outside") as refused:
        pack.counted(source)
    assert f"{source}/out -> /etc/passwd" in refused.value.evidence
    (tmp_path / "empty").mkdir()
    with sentences.raises("pack-empty"):
        pack.counted(tmp_path / "empty")
    with sentences.raises("pack-not-a-folder"):
        pack.counted(tmp_path / "nothing")
