"""A SIF as an OCI image: unpacking it. The rest is in tests/real/test_oci.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.images import oci_image
from runners.injob.stage import image as stage_image
from runners.injob.stage.node import NotStaged

from .. import sentences
from ..programs import program


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("unsquashfs version 4.3 (2014/05/12)", "4.3"),
        ("unsquashfs version 4.4-e0485802 (2021/05/24)", "4.4"),
        ("unsquashfs version 4.5 (2021/07/22)", "4.5"),
        ("what?", "of unknown version"),
        ("unsquashfs version 4.5.1 (2022/03/17)", ""),
        ("unsquashfs version 4.6.1 (2023/03/25)", ""),
        ("unsquashfs version 5.0 (2030/01/01)", ""),
    ],
)
def test_an_old_unsquashfs_is_not_run(
    said: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsquashfs = program(tmp_path / "unsquashfs", f"echo '{said}'; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if not word:
        oci_image._check_unsquashfs()
        assert stage_image.safe_unsquashfs() == str(unsquashfs)
        return
    with sentences.raises("unsquashfs-unsafe"):
        oci_image._check_unsquashfs()
    with sentences.refuses(NotStaged) as caught:
        stage_image.safe_unsquashfs()
    assert word in str(caught.value)
