"""What a node does with staged data: real processes, real locks, and the script around them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pytest

from runners import injob
from runners.contract import unsquashfs
from runners.contract.enums import Controller
from runners.contract.parts import STAGE
from runners.core.model import (
    DataAccess,
    Dataset,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Launching, Plan, Staging, Wireup
from runners.core.trainer import Trainer
from runners.injob.stage import job_folder, node
from runners.injob.stage.node import NotStaged
from runners.script import stage_lines

from .. import sentences


def helper(command: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the helper as a node does."""
    argv = [sys.executable, injob.HERE, STAGE, command, *words]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert process.stdin
    process.stdin.write(f"{folder}\n")
    process.stdin.flush()
    return process


def hold(folder: Path) -> subprocess.Popen[str]:
    return helper("hold", folder, "data")


def said(process: subprocess.Popen[str]) -> str:
    """Wait for its end; return what it said."""
    return process.communicate(timeout=20)[1]


def named(parent: Path, job: int) -> Path:
    """Return a folder as a script of that job names it."""
    return parent / f"{job_folder.PREFIX}{job}.{os.urandom(16).hex()}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that a job has on its node."""
    return named(tmp_path, 7)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A dataset with folders, a link and a file without anything in it."""
    tree = tmp_path / "source"
    (tree / "a" / "b").mkdir(parents=True)
    for number in range(50):
        (tree / "a" / f"{number}").write_bytes(bytes(number))
    (tree / "a" / "b" / "odd\nname é").write_text("x")
    (tree / "link").symlink_to("a/49")
    return tree


def held(folder: Path) -> None:
    job_folder.wait_for(str(folder))


def test_held_through_signals_until_the_end_of_input(folder: Path, source: Path) -> None:
    """Ranks that save and stop on a signal may still read."""
    holder = hold(folder)
    copier = helper("copy", folder, "set", str(source))
    assert "set, 1.3 kB in 52 files" in said(copier)
    assert copier.returncode == 0
    assert (folder / "set" / "link").read_bytes() == bytes(49)
    assert (folder / "set" / "a" / "b" / "odd\nname é").read_text() == "x"
    for number in job_folder.SIGNALS:
        holder.send_signal(number)
    time.sleep(0.2)
    assert folder.exists()
    assert said(holder) == ""
    assert holder.returncode == 0
    assert list(folder.parent.iterdir()) == [source]


def test_what_a_killed_job_left_the_next_one_removes(tmp_path: Path, folder: Path) -> None:
    killed = hold(folder)
    held(folder)
    (folder / "x").touch()
    living = hold(second := named(tmp_path, 8))
    held(second)
    assert folder.exists(), "it is held"
    killed.kill()
    killed.wait()
    following = hold(third := named(tmp_path, 9))
    held(third)
    assert not folder.exists()
    assert second.exists(), "that one lives"
    assert "left by a job that was killed" in said(following)
    said(living)
    assert list(tmp_path.iterdir()) == []


def another_users(folder: Path) -> None:
    folder.mkdir(0o700)
    os.chown(folder, 65534, 65534)


def link_to_own(folder: Path) -> None:
    own = folder.with_name("own")
    own.mkdir(0o700)
    folder.symlink_to(own)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param(
            another_users,
            "user 65534",
            marks=pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away"),
        ),
        (lambda folder: (folder.mkdir(), folder.chmod(0o777)), "mode 777"),
        (link_to_own, "Not a directory"),
    ],
)
def test_a_folder_that_somebody_made_first_ends_the_job(
    folder: Path, source: Path, made: Callable[[Path], object], why: str
) -> None:
    made(folder)
    holder = hold(folder)
    words = said(holder)
    assert (holder.returncode, f"cannot create {folder}: File exists" in words) == (92, True), words
    copier = helper("copy", folder, "set", str(source))
    words = said(copier)
    assert copier.returncode == 92
    assert f"{folder} is not the folder that this job made" in words
    assert why in words
    assert list(folder.iterdir()) == [], "nothing was written there"


def test_a_parent_that_others_may_change_is_refused(folder: Path) -> None:
    folder.parent.chmod(0o777)
    holder = hold(folder)
    words = said(holder)
    assert holder.returncode == 92
    assert f"{folder.parent} is writable by everybody and has no sticky bit" in words
    assert not folder.exists()
    folder.parent.chmod(0o1777)
    holder = hold(folder)
    held(folder)
    assert said(holder) == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_parent_that_a_group_may_change_is_told(folder: Path) -> None:
    os.chown(folder.parent, 0, 65534)
    folder.parent.chmod(0o770)
    holder = hold(folder)
    held(folder)
    assert f"may write in {folder.parent}: its members could replace" in said(holder)
    assert holder.returncode == 0


def test_a_name_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    holder = hold(tmp_path / f"{job_folder.PREFIX}7.4711")
    assert "is not random" in said(holder)
    assert holder.returncode == 92
    assert list(tmp_path.iterdir()) == []


def test_what_others_left_is_not_removed(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(0o700)
    (precious / "file").touch()
    link, guessable = named(tmp_path, 5), tmp_path / f"{job_folder.PREFIX}5.4711"
    link.symlink_to(precious)
    guessable.mkdir(0o700)
    holder = hold(folder)
    held(folder)
    assert said(holder) == ""
    assert (precious / "file").exists()
    assert link.is_symlink()
    assert guessable.is_dir()


def test_the_name_is_in_no_argument_before_the_folder_is_made(source: Path) -> None:
    """Other users read arguments in /proc."""
    before, _, _ = "\n".join(staging(FOLDER, FILE)).partition("sbcast")
    assert re.findall(r'.*"\$stage".*', before) == [
        """printf '%s\\n' "$stage" >&"$release\"""",
        """stage() { printf '%s\\n' "$stage" | on_each_node "$@" || exit; }""",
    ]


def test_no_room_is_said_with_the_nodes_name(folder: Path, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**13)
    holder = hold(folder)
    checker = helper("room", folder, "set", str(tmp_path / "huge"))
    words = said(checker)
    assert checker.returncode == 92
    assert f"runner: data on {os.uname().nodename.partition('.')[0]}: no space in" in words
    assert "10.0 TB needed" in words
    said(holder)


@pytest.mark.parametrize("missing", ["source", "folder"])
def test_what_is_not_there(folder: Path, tmp_path: Path, missing: str) -> None:
    holder = hold(folder)
    held(folder)
    target = folder if missing == "source" else tmp_path / "no" / folder.name
    copier = helper("copy", target, "set", str(tmp_path / "nothing"))
    words = said(copier)
    assert copier.returncode == 92
    assert ("cannot read" if missing == "source" else "is not a writable folder") in words
    said(holder)


def test_a_file_that_was_sent_is_taken_and_a_cut_one_is_copied(folder: Path, source: Path) -> None:
    folder.mkdir()
    (folder / "sent").write_bytes(b"y" * 49)
    (folder / "cut").write_bytes(b"y" * 20)
    assert node.copy(str(folder), "sent", str(source / "a" / "49")) == (1, 49, True)
    assert node.copy(str(folder), "cut", str(source / "a" / "49")) == (1, 49, False)
    assert (folder / "sent").read_bytes() == b"y" * 49
    assert (folder / "cut").read_bytes() == bytes(49)


def test_a_dangling_link_is_named(folder: Path, source: Path) -> None:
    folder.mkdir()
    (source / "bad").symlink_to("nowhere")
    with sentences.refuses(NotStaged):
        node.copy(str(folder), "set", str(source))


def test_the_helper_is_python_of_2016() -> None:
    """Enterprise systems in use have 3.6 as the node's own Python."""
    shared = ("__init__", "__main__", "own_folder", "processes", "records", "ssh", "temporary")
    contract = (
        "__init__",
        "enums",
        "exit_codes",
        "failure_kinds",
        "log_text",
        "parts",
        "run_files",
    )
    paths = [Path(injob.HERE, f"{name}.py") for name in shared]
    paths += [Path(unsquashfs.__file__).with_name(f"{name}.py") for name in contract]
    for path in (*paths, Path(unsquashfs.__file__), *Path(injob.HERE, STAGE).glob("*.py")):
        ast.parse(path.read_text(), feature_version=(3, 6))
        text = path.read_text()
        assert "from __future__ import annotations" not in text
        assert "capture_output" not in text


def staging(
    *data: Dataset, scheduler: SchedulerName = SchedulerName.SLURM, nodes: int = 2, root: str = "",
    injob: str = "/run/code/injob",
) -> list[str]:  # fmt: skip
    image, trainer = ImageInfo(Path("/i.sif")), Trainer("t", None, None)
    spec = JobSpec("t", image, trainer, Resources(nodes=nodes), Path("/runs"), data=data)
    wireup, staged = Wireup(Controller.NONE), Staging(DataAccess.COPIED, root=root)
    launching = Launching(scheduler, RuntimeName.NONE, LauncherName.SRUN)
    plan = Plan(spec, spec.resources, launching, wireup, staging=staged)
    return stage_lines.lines(plan, injob)


FOLDER = Dataset("a", Path("/d/it's a"))
FILE = Dataset("b", Path("/d/b.sqsh"), squashfs=True)


@pytest.mark.parametrize(
    ("scheduler", "nodes", "sent"),
    [("slurm", 2, True), ("slurm", 1, False), ("allocation", 2, False), ("local", 1, False)],
)
def test_one_file_for_several_nodes_is_sent(scheduler: str, nodes: int, sent: bool) -> None:
    text = "\n".join(staging(FOLDER, FILE, scheduler=SchedulerName(scheduler), nodes=nodes))
    assert ("sbcast --force /d/b.sqsh" in text) == sent
    assert ("srun" in text) == (scheduler != "local")
    assert """stage copy a '/d/it'"'"'s a'""" in text


def test_the_sites_folder_is_expanded_in_the_job() -> None:
    assert 'stage="$TMPDIR"' in staging(FOLDER, root="$TMPDIR")
    assert 'stage="/local/scratch"' in staging(FOLDER, root="/local/scratch")
    assert "stage=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}" in staging(FOLDER)


@pytest.mark.parametrize("code", [0, 3])
def test_the_script_ends_with_its_own_code_and_an_empty_disk(
    tmp_path: Path, source: Path, code: int
) -> None:
    data = Dataset("a", source)
    lines = staging(
        data, scheduler=SchedulerName.LOCAL, nodes=1, root=str(tmp_path), injob=injob.HERE
    )
    own = f"""finish() {{ echo "ended with $?"; }}
    trap finish EXIT
    {chr(10).join(lines)}
    ls "$stage/a"; exit {code}"""
    done = subprocess.run(["bash", "-c", own], capture_output=True, text=True, timeout=30)
    assert done.returncode == code
    assert done.stdout == f"a\nlink\nended with {code}\n"
    assert list(tmp_path.iterdir()) == [source]
