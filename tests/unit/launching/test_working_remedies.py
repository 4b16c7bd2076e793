"""No suggestion is printed that was not tried, nor one that was tried twice."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from runners.core.command_line import CommandLine, Given
from runners.core.diagnosis import warning
from runners.core.errors import Refused, RunnerError
from runners.core.progress import Listener
from runners.core.remedy import Remedy, change
from runners.launching import gather, working_remedies

from ..programs import environment, program

HERE: dict[str, Any] = {"runtime": "none", "scheduler": "local", "image": "env"}


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    """A folder with a Python environment in place of an image, and a trainer."""
    environment(here / "env")
    (here / "train.py").touch()
    return here


def typed(**flags: Any) -> CommandLine:
    settings = tuple(Given(*flag) for flag in {**HERE, **flags}.items())
    return CommandLine(settings=settings, trainer="train.py", cwd=os.getcwd())


def kept(*remedies: Remedy, **flags: Any) -> list[str]:
    error = Refused("it cannot work", "", list(remedies))
    working_remedies.keep(error, typed(**flags))
    return [str(remedy) for remedy in error.remedies]


def test_from_another_folder_relative_names_are_others(folder: Path) -> None:
    (folder / "other").mkdir()
    (told,) = kept(change(cwd=str(folder / "other")))
    assert "# refused too: " in told
    assert Path.cwd() == folder


def test_a_folder_that_has_the_same_files_is_offered(folder: Path) -> None:
    other = folder / "other"
    environment(other / "env")
    (other / "train.py").touch()
    assert kept(change(cwd=str(other))) == [f"cd {other} && the same command once more"]


def test_what_a_command_does_not_fix_is_seen() -> None:
    """The launch after it is planned too."""
    assert kept(change(first="make data", nodes=1)) == ["make data && --nodes 1"]
    both = kept(change(first="make data", nodes=1), launcher="srun")
    assert both == ["make data && --nodes 1 --launcher local"]


def test_all_squashfs_files_are_unpacked_before_a_launch_that_mounts_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each file by itself would launch with the other one, and be refused for it."""
    program(folder / "bin/podman", "exit 0")
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
    for name in "ab":
        (folder / f"{name}.sqsh").write_bytes(b"hsqs" + bytes(4092))
    both = ["a=a.sqsh", "b=b.sqsh", f"c={folder}"]
    flags = {**HERE, "runtime": "podman", "image": "x:1"}
    line = CommandLine(
        "launch",
        (*(Given(*flag) for flag in flags.items()), *(Given("data", text) for text in both)),
        trainer="train.py",
        cwd=os.getcwd(),
    )
    made = gather.plan("train.py", (), {**flags, "data": both}, True, Listener())
    assert [refusal.id for refusal in made.refusals] == ["squashfs-not-of-runtime"]
    (offered,) = working_remedies.instead(made, line)
    files = [shlex.quote(str(folder / name)) for name in ("a.sqsh", "b.sqsh")]
    first, second = (f"unsquashfs -d {name}-unpacked {file}" for name, file in zip("ab", files))
    assert offered.text == f"{first} && {second}"
    data = ("a=a-unpacked", "b=b-unpacked", f"c={folder}")
    assert offered.options == tuple(("data", text) for text in data)
    assert offered.leave_out == ("data",)


def test_other_settings_are_planned_by_the_solver_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    line = typed(nodes=2, launcher="srun")
    flags = {setting.name: setting.value for setting in line.settings}
    made = gather.plan("train.py", (), flags, True, Listener())
    assert made.instead[0] == change(nodes=1, ntasks=2, launcher="local")

    def refuse(*_: Any) -> Any:
        raise RunnerError("planned a second time")

    monkeypatch.setattr(gather, "plan", refuse)
    assert working_remedies.instead(made, line) == [made.instead[0]]


def test_what_works_against_a_warning_is_in_the_order_of_the_warning() -> None:
    """The last may only end the warning, and change least."""
    both = change(ntasks=2, env="SEED=1"), change(ntasks=1)
    assert working_remedies.against(warning("x", "y", *both), typed()) == [*both]
