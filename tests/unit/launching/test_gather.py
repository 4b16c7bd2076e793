"""What is known before a plan: which dataset is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.core import places
from runners.core.errors import NotFound
from runners.launching import gather


def test_a_dataset_is_named_or_lies_at_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one in which no trainer would find anything: it is to be checked."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for folder in (Path("mine"), places.data() / "fetched"):
        folder.mkdir(parents=True)
    assert gather.dataset("mine") == tmp_path / "mine"
    assert gather.dataset("~/mine") == tmp_path / "mine"
    assert gather.dataset("Fetched") == places.data() / "fetched"
    with pytest.raises(NotFound, match="fetchd is neither a folder nor"):
        gather.dataset("fetchd")
