"""`runner` for root: as the cluster's user in the toolbox, with this machine's pip and settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import builds, toolbox
from tests.cluster.namespaces import Bind
from tests.cluster.state import USER, State


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the toolbox is asked to run, and who owns the folders."""
    heard: dict[str, object] = {"owned": []}

    def argv(state: State, command: list[str], user: str, binds: list[Bind]) -> list[str]:
        heard.update(command=command, user=user, binds=[str(bind.source) for bind in binds])
        return command

    owned = heard["owned"]
    assert isinstance(owned, list)
    monkeypatch.setattr(toolbox, "argv", argv)
    monkeypatch.setattr("tests.cluster.builds.os.chown", lambda path, uid, gid: owned.append(path))
    for name in ("images", "links"):
        (tmp_path / name).mkdir()
    settings = {"find-links": f"{tmp_path}/links {tmp_path}/none"}
    monkeypatch.setattr("containers.pip.machine_settings", lambda: settings)
    monkeypatch.setenv("RUNNER_IMAGES_SOURCE", str(tmp_path / "images"))
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path))
    builds.argv(State(tmp_path, tmp_path / "cluster"), ["build", "cpu", "--base=debian"])
    return heard


def test_runner_runs_as_the_clusters_user(commands: dict[str, object]) -> None:
    command = commands["command"]
    assert isinstance(command, list)
    assert commands["user"] == USER
    assert command[-4:] == ["runners", "build", "cpu", "--base=debian"]
    assert "RUNNER_CACHE=/var/cache/horovod-runner" in command


def test_settings_of_the_caller_hold_and_their_folders_are_bound(
    commands: dict[str, object], tmp_path: Path
) -> None:
    command, binds = commands["command"], commands["binds"]
    assert isinstance(command, list)
    assert isinstance(binds, list)
    assert f"RUNNER_IMAGES_SOURCE={tmp_path}/images" in command
    assert set(binds) == {f"{tmp_path}/{name}" for name in ("wheels", "builds", "images", "links")}


def test_the_user_owns_what_is_filled(commands: dict[str, object], tmp_path: Path) -> None:
    owned = commands["owned"]
    assert isinstance(owned, list)
    assert {tmp_path / "wheels", tmp_path / "builds"} <= set(owned)
