"""What the shim corrects in the environment that a container and a node give it."""

from __future__ import annotations

import getpass
import os
import pwd
from pathlib import Path

import pytest

from runners.injob.rank import rank_environment, startup

from .test_gate import run


def test_a_temporary_folder_that_is_not_in_the_container_is_left_out(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path / "gone")}
    (note,) = rank_environment.settle("/run", env)
    assert "TMPDIR" not in env
    assert f"TMPDIR={tmp_path}/gone is no folder" in note
    kept = {"TMPDIR": str(tmp_path)}
    assert rank_environment.settle("/run", kept) == []
    assert kept["TMPDIR"] == str(tmp_path)


def test_rank_0_alone_says_so_and_all_use_another(tmp_path: Path) -> None:
    text = "import os, tempfile; print('in', os.environ.get('TMPDIR'), tempfile.gettempdir())"
    code, out = run(tmp_path, text, "--no-gate", TMPDIR="/nowhere/at all")
    assert code == 0, out
    assert out.count("TMPDIR=/nowhere/at all is no folder") == 1, out
    assert out.count("| in None /tmp") == 2, out


def test_the_trainers_folder_is_known_where_the_runtime_lost_it() -> None:
    env: dict[str, str] = {}
    rank_environment.settle("/scratch/runs/a-1", env)
    assert env["OUTPUT_DIR"] == "/scratch/runs/a-1"
    own = {"OUTPUT_DIR": "/mine"}
    rank_environment.settle("/scratch/runs/a-1", own)
    assert own["OUTPUT_DIR"] == "/mine"


def test_a_user_whom_the_container_does_not_know_has_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("USER", "LOGNAME", "LNAME", "USERNAME", startup.NAMELESS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("SLURM_JOB_USER", "ada")
    monkeypatch.setenv("HOME", "/home/ada")
    startup.complete_pwd()
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid())
    environment = dict(os.environ)
    rank_environment.settle("/run", environment)
    monkeypatch.setattr(os, "environ", environment)
    startup.complete_pwd()
    entry = pwd.getpwuid(os.getuid())
    assert (entry.pw_name, entry.pw_dir, getpass.getuser()) == ("ada", "/home/ada", "ada")
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid() + 1)
