"""The ranks' own temporary folder, and what Python runs as bytecode."""

from __future__ import annotations

import json
import os
import py_compile
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import runners.injob
from runners.contract.run_files import TEMPORARY_KEY
from runners.injob import temporary

from .test_gate import run

TOLD = """import json, os, sys, tempfile
print(json.dumps([tempfile.gettempdir(), os.path.realpath(sys.pycache_prefix)]))"""
INJOB = Path(runners.injob.__file__).parent
AROUND = [sys.executable, str(INJOB), "around"]


@pytest.fixture(autouse=True)
def no_prefix_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(temporary.BYTECODE, raising=False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder like /tmp, in which everybody may write; its path is short, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


def told(out: str) -> list[list[str]]:
    """Return what each rank printed of TOLD."""
    lines = [line.partition(" | ")[2] for line in out.splitlines() if " | [" in line]
    return [json.loads(line) for line in lines]


def with_key(run_dir: Path) -> None:
    (run_dir / "code").mkdir(exist_ok=True)
    (run_dir / TEMPORARY_KEY).write_text("0123")


def test_the_ranks_of_a_node_have_one_private_folder_which_is_gone_afterwards(
    tmp_path: Path, base: Path
) -> None:
    text = f"{TOLD}\nassert os.stat(tempfile.gettempdir()).st_mode & 0o777 == 0o700"
    code, out = run(tmp_path, text, "--no-gate", TMPDIR=str(base))
    assert code == 0, out
    first, second = told(out)
    assert first == second
    folder, prefix = first
    assert Path(folder).parent == base
    assert prefix.startswith(f"{folder}/")
    assert list(base.iterdir()) == []


def test_a_folder_in_which_only_the_user_writes_stays_and_bytecode_is_private(
    tmp_path: Path, base: Path
) -> None:
    own, known = base / "own", base / "known"
    own.mkdir(mode=0o755)
    known.mkdir()
    known.chmod(0o777)
    code, out = run(tmp_path, TOLD, "--no-gate", TMPDIR=str(own), PYTHONPYCACHEPREFIX=str(known))
    assert code == 0, out
    for folder, bytecode in told(out):
        assert folder == str(own)
        assert Path(bytecode).parent.parent == own
    assert list(own.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_who_else_may_write_is_kept_out(tmp_path: Path, base: Path, mode: int) -> None:
    base.chmod(mode)
    folder, notes = temporary.enter({"TMPDIR": str(base)}, str(tmp_path))
    assert Path(folder.path).parent == base
    assert notes == []
    folder.leave()
    inner = base / "inner"
    inner.mkdir(mode=0o700)
    assert temporary.is_private(str(inner)) is bool(mode & 0o1000)  # else it can be renamed


def test_keras_has_a_private_home_where_the_users_is_not_writable(tmp_path: Path) -> None:
    homes = {}
    for home in (tmp_path, Path("/nowhere")):
        env = {"HOME": str(home)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(home))
            folder, _ = temporary.enter(env, str(tmp_path))
        folder.leave()
        homes[home] = env.get("KERAS_HOME", "")
    assert homes[tmp_path] == ""
    assert homes[Path("/nowhere")].startswith(folder.path)


def test_a_path_too_long_for_sockets_is_not_taken(tmp_path: Path, base: Path) -> None:
    long = base / ("x" * 40)
    long.mkdir()
    long.chmod(0o1777)
    env = {"TMPDIR": str(long)}
    folder, notes = temporary.enter(env, str(tmp_path))
    assert env["TMPDIR"] == folder.path
    assert len(folder.path) < 60
    assert "too long" in notes[0]
    folder.leave()


def test_the_name_follows_from_the_runs_secret_and_start_alone(tmp_path: Path, base: Path) -> None:
    with_key(tmp_path)

    def name(**more: str) -> str:
        env = {"TMPDIR": str(base), "SLURM_JOB_ID": "1", **more}
        folder, _ = temporary.enter(env, str(tmp_path))
        try:
            return folder.path
        finally:
            folder.leave()

    assert name() == name()
    assert name() != name(SLURM_RESTART_COUNT="1")
    (tmp_path / TEMPORARY_KEY).write_text("4567")
    assert name() != name(SLURM_STEP_ID="0")


def test_a_folder_of_that_name_that_is_not_ours_is_not_entered(tmp_path: Path, base: Path) -> None:
    with_key(tmp_path)
    env = {"TMPDIR": str(base)}
    folder, _ = temporary.enter(env, str(tmp_path))
    folder.leave()
    Path(folder.path).symlink_to(tmp_path)
    env = {"TMPDIR": str(base)}
    other, _ = temporary.enter(env, str(tmp_path))
    assert env["TMPDIR"] == other.path != folder.path
    assert Path(other.path).stat().st_mode & 0o777 == 0o700
    other.leave()


def test_what_a_killed_job_left_is_swept_and_what_runs_stays(tmp_path: Path, base: Path) -> None:
    env = {**os.environ, "TMPDIR": str(base)}
    first, second = (
        subprocess.Popen([*AROUND, sys.executable, "-c", "import time; time.sleep(60)"], env=env)
        for _ in range(2)
    )
    deadline = time.monotonic() + 20
    while len(list(base.iterdir())) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    while len(list(base.iterdir())) > 1:
        assert time.monotonic() < deadline
        subprocess.run([sys.executable, str(INJOB), "tidy"], env=env, check=True)
    second.send_signal(signal.SIGTERM)
    assert second.wait(20) == 128 + signal.SIGTERM
    assert list(base.iterdir()) == []


def planted(folder: Path, name: str) -> None:
    """Put a module there, and bytecode of another one that Python takes without a look at it."""
    evil = folder / "evil.py"
    evil.write_text("print('EVIL')")
    (folder / f"{name}.py").write_text("print('SOURCE')")
    (folder / "__pycache__").mkdir()
    target = str(folder / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(evil), cfile=target, invalidation_mode=mode)


@pytest.mark.parametrize("open_cache", [False, True])
def test_bytecode_that_others_could_have_planted_is_not_run(
    tmp_path: Path, open_cache: bool
) -> None:
    """In a sticky folder like /tmp, or in a `__pycache__` that is open to them."""
    place = tmp_path / "place"
    place.mkdir()
    planted(place, "mine")
    place.chmod(0o755 if open_cache else 0o1777)
    (place / "__pycache__").chmod(0o777 if open_cache else 0o755)
    text = f"import sys; sys.path.insert(0, {str(place)!r}); import mine"
    plain = subprocess.run([sys.executable, "-c", text], text=True, capture_output=True)
    assert plain.stdout == "EVIL\n", "the attack does not work"
    inside = subprocess.run([*AROUND, sys.executable, "-c", text], text=True, capture_output=True)
    assert inside.stdout == "SOURCE\n", inside.stderr
    code, out = run(tmp_path, text, "--no-gate")
    assert code == 0, out
    assert (out.count("| SOURCE"), out.count("EVIL")) == (2, 0)


def test_bytecode_of_a_folder_that_was_made_again_is_not_run(tmp_path: Path, base: Path) -> None:
    """A process may outlive its job's folder; whoever makes it again may even know all names."""
    place = tmp_path / "place"
    place.mkdir()
    planted(place, "mine")
    env = {"TMPDIR": str(base)}
    folder, _ = temporary.enter(env, str(tmp_path))
    prefix = Path(env[temporary.BYTECODE])
    assert prefix.parent.samefile(folder.path)
    again = Path(f"{folder.path}/{prefix.name}{place}")

    def said(**more: str) -> str:
        command = [sys.executable, "-c", "import mine"]
        environ = {**os.environ, "PYTHONPATH": str(place), **env, **more}
        return subprocess.run(command, env=environ, text=True, capture_output=True).stdout

    assert said() == "SOURCE\n"
    assert again.is_dir(), "bytecode is not kept"
    folder.leave()
    assert said() == "SOURCE\n"
    assert list(base.iterdir()) == []
    again.mkdir(parents=True)
    (pyc,) = (place / "__pycache__").iterdir()
    pyc.rename(again / pyc.name)
    assert said() == "SOURCE\n"
    assert said(PYTHONPYCACHEPREFIX=f"{folder.path}/{prefix.name}") == "EVIL\n"


def test_bytecode_of_an_environment_is_still_used(tmp_path: Path) -> None:
    """Else each job would compile torch again."""
    place = tmp_path / "site-packages"
    place.mkdir(mode=0o755)
    planted(place, "package")
    text = f"import sys; sys.path.insert(0, {str(place)!r}); import package"
    for command in ((), (sys.executable, "-c", text)):
        code, out = run(tmp_path, text, "--no-gate", command=command)
        assert (code, out.count("| EVIL")) == (0, 2), out
    inside = subprocess.run([*AROUND, sys.executable, "-c", text], text=True, capture_output=True)
    assert inside.stdout == "EVIL\n", inside.stderr


def test_a_command_gets_its_arguments_signals_and_exit_code(tmp_path: Path) -> None:
    def code(*words: str) -> int:
        return subprocess.run([*AROUND, *words], capture_output=True).returncode

    assert code("sh", "-c", "exit 3") == 3
    assert code("sh", "-c", "kill -USR1 $PPID; exec sleep 10") == 128 + signal.SIGUSR1
    assert code("no such program") == 127


SPAWNS = """
import multiprocessing, os, signal, sys
from multiprocessing import resource_tracker
lock = multiprocessing.get_context("spawn").Lock()
print(os.getpid(), resource_tracker._resource_tracker._pid, lock._semlock.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm, where semaphores lie")
def test_semaphores_of_killed_processes_are_removed_and_no_others() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SPAWNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    own, tracker, name = process.stdout.readline().split()
    path = Path(f"/dev/shm/sem.{name.lstrip('/')}")
    assert path.exists()
    temporary.tidy([])
    assert path.exists(), "its process lives"
    for pid in (tracker, own):
        os.kill(int(pid), signal.SIGKILL)
    process.communicate()
    temporary.tidy([])
    assert not path.exists()


def test_a_folder_that_a_late_process_made_again_is_swept_too(base: Path) -> None:
    """Python makes the whole path of its bytecode, as the umask says."""
    folder, _ = temporary.enter({"TMPDIR": str(base)}, str(base))
    folder.leave()
    (Path(folder.path) / "pycache").mkdir(parents=True, mode=0o755)
    temporary.sweep(str(base))
    assert list(base.iterdir()) == []
