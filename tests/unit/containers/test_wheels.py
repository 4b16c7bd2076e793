"""Fetching what a lock names: from a folder, an index, and PyTorch's own for its CPU builds.

A stand-in for pip has files at places and says what pip says; that pip does say so, and finds
what it is told to look for, is what tests/real/test_build_pip.py proves with the real one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from containers import image_catalogue, pip, wheels
from containers.image_catalogue import Image
from runners.core.errors import SystemFault

COMMON, CPU = "http://common", "http://cpu"
TORCH, ABSL = "torch==2.13.0+cpu", "absl==1"
HASH = f" --hash=sha256:{'1' * 64}\n"
MISSING = """\
ERROR: Could not find a version that satisfies the requirement {pin} (from versions: none)
ERROR: No matching distribution found for {pin}"""
SILENT = "WARNING: Retrying after connection broken by 'NewConnectionError': /cpu/torch/\n"
ALTERED = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    torch==2.13.0+cpu from http://cpu/torch/torch-2.13.0+cpu-py3-none-any.whl:"""


class Pip:
    """Stands for `pip.run`: has pins at places, and keeps where each call looked."""

    def __init__(self) -> None:
        self.has: dict[str, list[str]] = {COMMON: [], CPU: []}
        self.has_all = False
        self.settings, self.failure, self.silent = "", "", ""
        self.asked: list[tuple[str, ...]] = []
        self.calls: list[Sequence[str]] = []

    def run(self, arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
        if arguments == ["config", "list"]:
            return self.settings
        given = dict(re.findall(r"^--([\w-]+)=?(.*)$", "\n".join(arguments), re.MULTILINE))
        self.calls.append(arguments)
        own = variables or {}
        # Not in a small /tmp; and a constraint would hide that a file is missing.
        assert Path(own["TMPDIR"]).parent == Path(given["dest"]).parent
        assert own["PIP_CONSTRAINT"] == os.devnull
        self._download(given, Path(given["dest"]))
        return ""

    def _download(self, given: Mapping[str, str], into: Path) -> None:
        place = given.get("find-links") or given.get("index-url", COMMON)
        pins = [line.split()[0] for line in Path(given["requirement"]).read_text().splitlines()]
        self.asked.append((place, *pins))
        if place == CPU and self.failure:
            raise SystemFault(self.failure)
        for pin in pins:
            if not self.has_all and pin not in self.has.get(place, []):
                silent = SILENT if place == self.silent else ""
                raise SystemFault(silent + MISSING.format(pin=pin))
            (into / pin).touch()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """The host's pip; its configuration names the common index."""
    made = Pip()
    monkeypatch.setattr(pip, "run", made.run)
    monkeypatch.setenv(wheels.CPU_INDEX_VARIABLE, CPU)
    return made


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """A folder to fetch to, in one that is empty."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "wheels"


def image(tmp_path: Path, *pins: str) -> Image:
    """An image whose lock has these."""
    (tmp_path / "x.lock").write_text("".join(pin + HASH for pin in pins))
    return replace(image_catalogue.image("cpu"), lock=str(tmp_path / "x.lock"))


def test_the_cpu_build_comes_from_pytorchs_index_when_the_common_one_has_none(
    tmp_path: Path, host: Pip, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.has = {COMMON: [ABSL], CPU: [TORCH, ABSL]}
    wheels.fetch(image(tmp_path, TORCH, ABSL), pip.PackageSource(), into)
    assert sorted(path.name for path in into.iterdir()) == [ABSL, TORCH]
    assert host.asked == [(COMMON, TORCH), (CPU, TORCH), (COMMON, ABSL)]
    said = capsys.readouterr().err
    assert f"torch 2.13.0+cpu: from PyTorch's CPU index ({CPU}), as" in said


def test_without_an_index_for_cpus_the_error_says_how_to_name_one(
    tmp_path: Path, host: Pip, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(wheels.CPU_INDEX_VARIABLE)
    host.has = {COMMON: [ABSL]}
    with pytest.raises(SystemFault, match=r"no file for torch==2\.13\.0") as caught:
        wheels.fetch(image(tmp_path, TORCH, ABSL), pip.PackageSource(), into)
    assert "try: RUNNER_TORCH_CPU_INDEX=ADDRESS: what pytorch.org" in str(caught.value)
    assert host.asked == [(COMMON, TORCH)]


def test_pytorchs_index_is_not_asked_for_what_the_configured_places_have(
    tmp_path: Path, host: Pip, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.has = {COMMON: [TORCH], CPU: [TORCH]}
    wheels.fetch(image(tmp_path, TORCH), pip.PackageSource(), into)
    assert (into / TORCH).is_file()
    assert host.asked == [(COMMON, TORCH)]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("source", "settings", "why"),
    [
        (pip.PackageSource(index_url="http://mine"), "", "as --index-url says where to look"),
        (pip.PackageSource(wheelhouse=Path("/wheels")), "", "as --wheelhouse says where to look"),
        (pip.PackageSource(), "global.no-index='true'", "as pip's configuration says no-index"),
    ],
)
def test_pytorchs_index_is_not_asked_where_the_user_says_so(
    tmp_path: Path, host: Pip, into: Path, source: pip.PackageSource, settings: str, why: str
) -> None:
    host.has, host.settings = {CPU: [TORCH]}, settings
    with pytest.raises(SystemFault) as caught:
        wheels.fetch(image(tmp_path, TORCH), source, into)
    assert f"no file for {TORCH}" in str(caught.value)
    assert f"CPU index ({CPU}) is not asked, {why}" in str(caught.value)
    assert [place for place, *_ in host.asked if place == CPU] == []
    assert list(into.parent.iterdir()) == []


def test_another_file_on_pytorchs_index_is_refused(tmp_path: Path, host: Pip, into: Path) -> None:
    host.failure = ALTERED
    wanted = f"^{re.escape(TORCH)} is not the file that the lock names"
    with pytest.raises(SystemFault, match=wanted) as caught:
        wheels.fetch(image(tmp_path, TORCH), pip.PackageSource(), into)
    assert f"{CPU}/torch/" in str(caught.value)
    assert list(into.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("silent", "said"), [("", "does not have it either"), (CPU, "does not answer")]
)
def test_an_index_without_the_file_and_one_that_does_not_answer_are_told_apart(
    tmp_path: Path, host: Pip, into: Path, silent: str, said: str
) -> None:
    host.silent = silent
    with pytest.raises(SystemFault) as caught:
        wheels.fetch(image(tmp_path, TORCH), pip.PackageSource(), into)
    assert f"PyTorch's CPU index ({CPU}) {said}" in str(caught.value)
    assert "--wheelhouse DIR" in str(caught.value)


def test_why_nobody_answers_is_said_once_for_all_of_pips_attempts() -> None:
    reason = "connection broken by 'NewConnectionError: Connection refused': /cpu/torch/"
    text = f"WARNING: Retry(total=1) {reason}\nWARNING: Retry(total=0) {reason}\nERROR: none\n"
    kept = pip._last_errors(text + "WARNING: an old pip\n")
    assert kept == f"WARNING: Retry(total=0) {reason}\nERROR: none"


def test_another_failure_of_pip_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> str:
        raise SystemFault("connection refused")

    monkeypatch.setattr(pip, "run", run)
    with pytest.raises(SystemFault, match=r"^connection refused$"):
        wheels.fetch(image_catalogue.image("cpu"), pip.PackageSource(), tmp_path / "wheels")


def test_wheels_and_source_archives_are_asked_for_apart(host: Pip, tmp_path: Path) -> None:
    host.has_all = True
    wheels.fetch(image_catalogue.image("cpu"), pip.PackageSource(tmp_path), tmp_path / "wheels")
    assert (tmp_path / "wheels").is_dir()
    assert ["--only-binary=:all:" in call for call in host.calls] == [True, True, False]
    assert "--no-binary=horovod" in host.calls[2]
    assert all("--require-hashes" in call and "--no-index" in call for call in host.calls)
