"""Fetching what a lock names, as far as tests/real/test_build_pip.py does not ask the real pip."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from containers import image_catalogue, pip, wheels
from runners.core.errors import SystemFault

from .. import sentences


def fetch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: SystemFault) -> None:
    """Fetch with a pip that fails."""

    def run(*_: object) -> str:
        raise fault

    monkeypatch.setattr(pip, "run", run)
    wheels.fetch(image_catalogue.image("cpu"), pip.PackageSource(), tmp_path / "wheels")


def test_without_an_index_for_cpus_the_error_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(wheels.CPU_INDEX_VARIABLE, raising=False)
    fault = SystemFault("ERROR: No matching distribution found for torch==2+cpu")
    with sentences.raises("no-file") as caught:
        fetch(monkeypatch, tmp_path, fault)
    assert str(caught.value.remedies[0]).startswith(f"{wheels.CPU_INDEX_VARIABLE}=ADDRESS: ")


def test_another_failure_of_pip_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = SystemFault("connection refused")
    with pytest.raises(SystemFault) as caught:
        fetch(monkeypatch, tmp_path, fault)
    assert caught.value is fault


def test_why_nobody_answers_is_said_once_for_all_of_pips_attempts() -> None:
    reason = "connection broken by 'NewConnectionError: Connection refused': /cpu/torch/"
    text = f"WARNING: Retry(total=1) {reason}\nWARNING: Retry(total=0) {reason}\nERROR: none\n"
    kept = pip._last_errors(text + "WARNING: an old pip\n")
    assert kept == f"WARNING: Retry(total=0) {reason}\nERROR: none"


def test_wheels_and_source_archives_are_asked_for_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Sequence[str]] = []

    def run(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
        (into,) = (Path(word[len("--dest=") :]) for word in arguments if word.startswith("--dest="))
        # Not in a small /tmp; and a constraint would hide that a file is missing.
        assert Path(variables["TMPDIR"]).parent == into.parent
        assert variables["PIP_CONSTRAINT"] == os.devnull
        calls.append(arguments)
        return ""

    monkeypatch.setattr(pip, "run", run)
    wheels.fetch(image_catalogue.image("cpu"), pip.PackageSource(tmp_path), tmp_path / "wheels")
    assert (tmp_path / "wheels").is_dir()
    assert ["--only-binary=:all:" in call for call in calls] == [True, True, False]
    assert "--no-binary=horovod" in calls[2]
    assert all("--require-hashes" in call and "--no-index" in call for call in calls)
