"""Which file a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.images import local_image

from .. import sentences
from ..core.test_sif import make_sif


def test_a_file_that_is_no_whole_image_can_be_looked_at_but_not_launched(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(here))
    cut = make_sif(here / "cut.sif", {}, cut=100)
    with sentences.raises("image-unusable"):
        local_image.on_disk(cut.name)
    assert local_image.file_of(cut.name) == cut
    with sentences.raises("image-missing"):
        local_image.file_of("absent.sif")


def test_what_is_not_here_is_brought_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(here))
    assert local_image.brings("horovod_cpu.sif") == ["runner build cpu"]
    assert local_image.brings("absent.sif") == []
    make_sif(here / "horovod_cpu.sif", {})
    assert local_image.brings("horovod_cpu.sif") == []
    (here / "horovod_cpu.sif").chmod(0o666)
    with sentences.raises("untrusted"):
        local_image.brings("horovod_cpu.sif")
