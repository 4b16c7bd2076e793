"""What a node does with staged data: real processes, real locks, and the script around them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.core.errors import Refused, UsageError
from runners.core.model import Dataset
from runners.data import pack
from runners.injob.folders import STAGE
from runners.injob.stage import copying, place
from runners.injob.stage.failure import NotStaged
from runners.script import stage_lines


def helper(*words: str) -> subprocess.Popen[str]:
    """Start the helper as a node does."""
    command = [sys.executable, str(STAGE), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """Wait for its end; return what it said."""
    return process.communicate(timeout=20)[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that a job has on its node."""
    return tmp_path / f"{place.PREFIX}7.1"


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


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_held_through_signals_until_the_end_of_input(folder: Path, source: Path) -> None:
    """Ranks that save and stop on a signal may still read."""
    holder = helper("hold", str(folder))
    copier = helper("copy", str(folder), "set", str(source))
    assert "set, 1.3 kB in 52 files" in said(copier)
    assert copier.returncode == 0
    assert (folder / "set" / "link").read_bytes() == bytes(49)
    assert (folder / "set" / "a" / "b" / "odd\nname é").read_text() == "x"
    for number in place.SIGNALS:
        holder.send_signal(number)
    time.sleep(0.2)
    assert folder.exists()
    assert said(holder) == ""
    assert holder.returncode == 0
    assert list(folder.parent.iterdir()) == [source]


def test_what_a_killed_job_left_the_next_one_removes(tmp_path: Path, folder: Path) -> None:
    killed = helper("hold", str(folder))
    wait_for(folder)
    (folder / "x").touch()
    living = helper("hold", f"{tmp_path}/{place.PREFIX}8.1")
    wait_for(tmp_path / f"{place.PREFIX}8.1")
    assert folder.exists(), "it is held"
    killed.kill()
    killed.wait()
    following = helper("hold", f"{tmp_path}/{place.PREFIX}9.1")
    wait_for(tmp_path / f"{place.PREFIX}9.1")
    assert not folder.exists()
    assert (tmp_path / f"{place.PREFIX}8.1").exists(), "that one lives"
    assert "left by a job that was killed" in said(following)
    said(living)
    assert list(tmp_path.iterdir()) == []


def test_no_room_is_said_with_the_nodes_name(folder: Path, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**13)
    holder = helper("hold", str(folder))
    checker = helper("room", str(folder), "set", str(tmp_path / "huge"))
    words = said(checker)
    assert checker.returncode == 92
    assert f"runner: data on {os.uname().nodename.partition('.')[0]}: no space in" in words
    assert "10.0 TB needed" in words
    said(holder)


@pytest.mark.parametrize("missing", ["source", "folder"])
def test_what_is_not_there(folder: Path, tmp_path: Path, missing: str) -> None:
    holder = helper("hold", str(folder))
    wait_for(folder)
    target = str(folder) if missing == "source" else f"{tmp_path}/no/{folder.name}"
    copier = helper("copy", target, "set", str(tmp_path / "nothing"))
    words = said(copier)
    assert copier.returncode == 92
    assert ("cannot read" if missing == "source" else "is no folder to write in") in words
    said(holder)


def test_a_file_that_was_sent_is_taken_and_a_cut_one_is_copied(folder: Path, source: Path) -> None:
    folder.mkdir()
    (folder / "sent").write_bytes(b"y" * 49)
    (folder / "cut").write_bytes(b"y" * 20)
    assert copying.copy(str(folder), "sent", str(source / "a" / "49")) == (1, 49, True)
    assert copying.copy(str(folder), "cut", str(source / "a" / "49")) == (1, 49, False)
    assert (folder / "sent").read_bytes() == b"y" * 49
    assert (folder / "cut").read_bytes() == bytes(49)


def test_a_dangling_link_is_named(folder: Path, source: Path) -> None:
    folder.mkdir()
    (source / "bad").symlink_to("nowhere")
    with pytest.raises(NotStaged, match=r"cannot read .*/bad: No such file"):
        copying.copy(str(folder), "set", str(source))


def test_the_helper_is_python_of_2016() -> None:
    """Enterprise systems in use have 3.6 as the node's own Python."""
    for path in STAGE.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 6))
        text = path.read_text()
        assert "from __future__ import annotations" not in text
        assert "capture_output" not in text


def staging(*data: Dataset, scheduler: str = "slurm", nodes: int = 2, root: str = "") -> list[str]:
    return stage_lines.lines(
        stage_lines.Staging(data, scheduler, nodes, root), "/run/code/injob/stage"
    )


FOLDER = Dataset("a", Path("/d/it's a"))
FILE = Dataset("b", Path("/d/b.sqsh"), squashfs=True)


@pytest.mark.parametrize(
    ("scheduler", "nodes", "sent"),
    [("slurm", 2, True), ("slurm", 1, False), ("allocation", 2, False), ("local", 1, False)],
)
def test_one_file_for_several_nodes_is_sent(scheduler: str, nodes: int, sent: bool) -> None:
    text = "\n".join(staging(FOLDER, FILE, scheduler=scheduler, nodes=nodes))
    assert ("sbcast --force /d/b.sqsh" in text) == sent
    assert ("srun" in text) == (scheduler != "local")
    assert """copy "$stage" a '/d/it'"'"'s a' < /dev/null || exit""" in text


def test_the_sites_folder_is_expanded_in_the_job() -> None:
    assert 'stage="$TMPDIR"' in staging(FOLDER, root="$TMPDIR")
    assert 'stage="/local/scratch"' in staging(FOLDER, root="/local/scratch")
    assert "stage=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}" in staging(FOLDER)


@pytest.mark.parametrize("code", [0, 3])
def test_the_script_ends_with_its_own_code_and_an_empty_disk(
    tmp_path: Path, source: Path, code: int
) -> None:
    lines = stage_lines.lines(
        stage_lines.Staging((Dataset("a", source),), "local", 1, str(tmp_path)),
        str(STAGE),
    )
    own = f"""finish() {{ echo "ended with $?"; }}
    trap finish EXIT
    {chr(10).join(lines)}
    ls "$stage/a"; exit {code}"""
    done = subprocess.run(["bash", "-c", own], capture_output=True, text=True, timeout=30)
    assert done.returncode == code
    assert done.stdout == f"a\nlink\nended with {code}\n"
    assert list(tmp_path.iterdir()) == [source]


def test_what_is_packed_is_counted(source: Path) -> None:
    assert pack.look(source) == pack.Counted(52, 2, 1226 + len("a/49"))


def test_what_cannot_be_packed_whole_is_named(source: Path, tmp_path: Path) -> None:
    (source / "out").symlink_to("/etc/passwd")
    (source / "up").symlink_to("../elsewhere")
    with pytest.raises(Refused) as error:
        pack.look(source)
    assert "2 links that lead out of it" in str(error.value)
    assert f"{source}/out -> /etc/passwd" in str(error.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="is empty"):
        pack.look(tmp_path / "empty")
    with pytest.raises(UsageError, match="is not a folder"):
        pack.look(tmp_path / "nothing")
