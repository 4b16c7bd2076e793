"""What Slurm answered is asked again only after a minute, or when something else could answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.sites import probe

from ..programs import program

COMMANDS = [["sinfo", "--noheader"], ["scontrol", "show", "config"]]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for Slurm's programs; each call adds a line to the file."""
    calls = tmp_path / "calls"
    calls.touch()
    for name in ("sinfo", "scontrol"):
        program(tmp_path / "bin" / name, f"echo {name} >> {calls}; echo {name} says $*")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    return calls


def _asked(calls: Path) -> int:
    return len(calls.read_text(encoding="utf-8").split())


def _remembered(calls: Path) -> Path:
    (path,) = (calls.parent / "cache" / "horovod-runner").iterdir()
    return path


def test_the_second_answer_is_the_first_one(calls: Path) -> None:
    first = probe.ask_slurm(COMMANDS, 10)
    assert [answer.out for answer in first] == [
        "sinfo says --noheader\n",
        "scontrol says show config\n",
    ]
    assert probe.ask_slurm(COMMANDS, 10) == first
    assert _asked(calls) == 2
    assert "asked again after 60 s" in json.loads(_remembered(calls).read_text())["about"]
    assert _remembered(calls).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("seconds", [-61, 5])
def test_what_is_old_or_of_a_later_time_is_asked_again(calls: Path, seconds: float) -> None:
    probe.ask_slurm(COMMANDS, 10)
    path = _remembered(calls)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "time": content["time"] + seconds}), encoding="utf-8")
    probe.ask_slurm(COMMANDS, 10)
    assert _asked(calls) == 4


def test_another_configuration_or_program_is_asked(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.ask_slurm(COMMANDS, 10)
    (calls.parent / "slurm.conf").write_text("ClusterName=other\n", encoding="utf-8")
    probe.ask_slurm(COMMANDS, 10)
    assert _asked(calls) == 4
    program(calls.parent / "other" / "sinfo", "echo another")
    monkeypatch.setenv("PATH", f"{calls.parent}/other:{calls.parent}/bin:/usr/bin:/bin")
    assert probe.ask_slurm(COMMANDS, 10)[0].out == "another\n"


def test_a_failure_is_not_remembered(calls: Path) -> None:
    program(calls.parent / "bin" / "sinfo", "exit 1")
    assert probe.ask_slurm(COMMANDS, 10)[0].code == 1
    program(calls.parent / "bin" / "sinfo", "echo up again")
    assert probe.ask_slurm(COMMANDS, 10)[0].out == "up again\n"


@pytest.mark.parametrize("text", ["", "[]", '{"form": 1}', "no JSON"])
def test_a_file_of_another_kind_does_no_harm(calls: Path, text: str) -> None:
    probe.ask_slurm(COMMANDS, 10)
    _remembered(calls).write_text(text, encoding="utf-8")
    assert probe.ask_slurm(COMMANDS, 10)[0].out == "sinfo says --noheader\n"
    assert _asked(calls) == 4
