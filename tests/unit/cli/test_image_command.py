"""Commands with an argument IMAGE, or with --from, offer another image as they name it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ..core.test_sif import make_sif
from ..in_process import Done, runner

OTHER = "horovod_cpu.sif"


def tries(done: Done) -> list[str]:
    assert done.returncode == 2
    assert "--image" not in done.stderr
    return [line[len("  try: ") :] for line in done.stderr.splitlines() if "  try: " in line]


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("inspect ''", f"runner inspect {OTHER}"),
        ("inspect --json ''", f"runner inspect --json {OTHER}"),
        ("inspect horovod_cp.sif", f"runner inspect {OTHER}"),
        ("verify --quick ''", f"runner verify --quick {OTHER}"),
        ("push '' oras://x.org/a:1", f"runner push {OTHER} oras://x.org/a:1"),
        ("build --horovod --from horovod_cp", f"runner build --horovod --from {OTHER}"),
    ],
)
def test_another_image_stands_where_the_command_names_it(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    suggested: str,
) -> None:
    before = runner(monkeypatch, capsys, *shlex.split(typed))
    assert tries(before)[0] == f"runner build cpu && {suggested}", "it is not there yet"
    make_sif(here / OTHER, {})
    assert tries(runner(monkeypatch, capsys, *shlex.split(typed))) == [suggested]


def test_an_image_that_is_not_trusted_is_not_suggested(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sif(here / OTHER, {}).chmod(0o666)
    done = runner(monkeypatch, capsys, "inspect", "horovod_cp.sif")
    assert "the image horovod_cp.sif does not exist" in done.stderr
    assert tries(done) == []


def test_what_is_suggested_works(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sif(here / OTHER, {"horovod.version": "0.28.1"})
    (line,) = tries(runner(monkeypatch, capsys, "inspect", ""))
    words = shlex.split(line.removeprefix("runner "))
    assert "0.28.1" in runner(monkeypatch, capsys, *words).stdout
