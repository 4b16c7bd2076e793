"""How a checkout's environment reaches several clusters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster import install


def test_a_cluster_keeps_its_install_when_the_shared_one_is_pruned(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    (shared / "bin").mkdir(parents=True)
    own.mkdir()
    (shared / "bin/python").symlink_to("/usr/bin/python3")
    (shared / "bin/runner").write_text("one")
    install._bring(shared, own / "runner-1")
    (shared / "bin/runner").unlink()
    assert (own / "runner-1/bin/runner").read_text() == "one"
    assert os.readlink(own / "runner-1/bin/python") == "/usr/bin/python3"
    assert os.listdir(own) == ["runner-1"]


def test_the_oldest_installs_go_but_never_the_one_in_use(tmp_path: Path) -> None:
    for number in range(install.KEPT + 2):
        folder = tmp_path / f"runner-{number}"
        folder.mkdir()
        os.utime(folder, (number, number))
    install._prune(tmp_path, keep="runner-0")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"runner-0", *(f"runner-{number}" for number in range(2, install.KEPT + 2))}


def test_another_error_than_another_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        install._link(str(tmp_path / "none"), str(tmp_path / "new"))
