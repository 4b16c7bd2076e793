"""Unit tests start processes only where their file says why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit import processes

ROOT = Path(__file__).parents[3]


def test_each_file_with_a_reason_is_there() -> None:
    tests = [*ROOT.glob("tests/unit/*/test_*.py"), *ROOT.glob("addons/*/tests/**/test_*.py")]
    assert {f"{test.parent.name}/{test.stem}" for test in tests} >= processes.FILES


def test_a_file_without_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(AssertionError, match="core/test_text starts a process without a reason"),
        processes.allowed_with_a_reason(Path("core/test_text.py"), monkeypatch),
    ):
        subprocess.run(["true"], check=True)
