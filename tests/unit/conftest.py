"""Where most tests of commands run, and which may start processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import processes


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; what `runner` has of a user's own would be in `home` beside it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("HOME", "RUNNER_SCRATCH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return folder


@pytest.fixture(autouse=True)
def reason_for_processes(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let only the files start processes that have a reason in `processes.py`."""
    with processes.allowed_with_a_reason(request.path, monkeypatch):
        yield
