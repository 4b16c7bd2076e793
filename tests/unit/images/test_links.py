"""What others made, an image, a layer, an archive, is opened through no link and nowhere else."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.core import untrusted_folder
from runners.core.errors import Refused, RunnerError
from runners.core.progress import Progress
from runners.data import fetch
from runners.images.facts import image_labels
from runners.images.registry import oci, oci_layer
from runners.images.store import images_lock
from runners.injob.stage import image as stage_image
from runners.injob.stage.node import NotStaged

from ..programs import program
from ..tables import each

SECRET = b'{"secret": "of the user"}'
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a private file."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "private").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An unpacked image."""
    folder = tmp_path / "root"
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/sh").write_bytes(b"shell")
    return folder


@pytest.mark.parametrize("name", ["link", "way/private", "usr/../../home/private", "/etc/passwd"])
def test_a_way_out_of_the_folder_is_refused(root: Path, home: Path, name: str) -> None:
    (root / "link").symlink_to(home / "private")
    (root / "way").symlink_to(home)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory|leads out"):
        untrusted_folder.open_file(root, name)
    assert not untrusted_folder.is_folder(root, "way")
    with untrusted_folder.open_file(root, "usr/bin/sh") as file:
        assert file.read() == b"shell"


def test_a_pipe_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        untrusted_folder.open_file(root, "pipe")


def layer(root: Path, target: Path) -> dict[str, tarfile.TarInfo]:
    names = oci_layer.below(root, *untrusted_folder.names(root))
    oci_layer.write(root, names, target, Progress())
    with tarfile.open(target) as tar:
        return {member.name: member for member in tar}


def test_a_layer_has_links_as_links(root: Path, home: Path, tmp_path: Path) -> None:
    (root / "file").symlink_to(home / "private")
    (root / "folder").symlink_to(home)
    (home / "private").chmod(0)
    there = layer(root, tmp_path / "layer")
    assert sorted(there) == ["file", "folder", "usr", "usr/bin", "usr/bin/sh"]
    assert there["file"].issym()
    assert there["folder"].issym()
    assert (home / "private").stat().st_mode & 0o777 == 0


def test_a_layer_has_no_sockets(root: Path, tmp_path: Path) -> None:
    os.mknod(root / "socket", stat.S_IFSOCK | 0o600)
    assert "socket" not in layer(root, tmp_path / "layer")


@pytest.mark.parametrize("out", ["file", "folder"])
def test_a_run_script_that_is_elsewhere_is_not_read(root: Path, home: Path, out: str) -> None:
    (home / "runscript").write_bytes(SECRET)
    if out == "file":
        (root / ".singularity.d").mkdir()
        (root / ".singularity.d/runscript").symlink_to(home / "private")
    else:
        (root / ".singularity.d").symlink_to(home)
    oci._copy_runscript(root)
    assert not (root / oci.RUNSCRIPT).exists()


def test_a_run_script_is_not_written_through_a_link(root: Path, home: Path) -> None:
    (root / ".singularity.d").mkdir()
    (root / ".singularity.d/runscript").write_text("#!/bin/sh\n")
    (root / oci.RUNSCRIPT).symlink_to(home / "new")
    with suppress(FileExistsError):
        oci._copy_runscript(root)
    assert [path.name for path in home.iterdir()] == ["private"]


@pytest.mark.parametrize("out", ["file", "folder"])
def test_labels_of_a_sandbox_that_are_elsewhere_are_not_read(
    root: Path, home: Path, out: str
) -> None:
    if out == "file":
        (root / ".singularity.d").mkdir()
        (root / ".singularity.d/labels.json").symlink_to(home / "private")
    else:
        (home / "labels.json").write_bytes(SECRET)
        (root / ".singularity.d").symlink_to(home)
    with pytest.raises(Refused) as error:
        image_labels.read(root)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("text", ["[]", "1", "[" * 10_000, "{", "\x00"])
def test_labels_of_a_sandbox_that_are_none(root: Path, text: str) -> None:
    (root / ".singularity.d").mkdir()
    (root / ".singularity.d/labels.json").write_text(text)
    with pytest.raises(Refused, match="cannot be used as an image"):
        image_labels.read(root)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("unsquashfs version 4.3 (2014/05/12)", "4.3"),
        ("unsquashfs version 4.4-e0485802 (2021/05/24)", "4.4"),
        ("unsquashfs version 4.5 (2021/07/22)", "4.5"),
        ("what?", "of unknown version"),
        ("unsquashfs version 4.5.1 (2022/03/17)", ""),
        ("unsquashfs version 4.6.1 (2023/03/25)", ""),
        ("unsquashfs version 5.0 (2030/01/01)", ""),
    ],
)
def test_an_old_unsquashfs_is_not_run(
    said: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsquashfs = program(tmp_path / "unsquashfs", f"echo '{said}'; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if not word:
        oci._check_unsquashfs()
        assert stage_image.safe_unsquashfs() == str(unsquashfs)
        return
    with pytest.raises(Refused, match=f"unsquashfs {word} can be made to write(?s:.*)4.5.1 or"):
        oci._check_unsquashfs()
    with pytest.raises(NotStaged, match=f"unsquashfs {word} can .*--stage-image node-local"):
        stage_image.safe_unsquashfs()


def archive(path: Path, *members: tuple[str, bytes], **facts: Any) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            for key, value in facts.items():
                setattr(entry, key, value)
            tar.addfile(entry, io.BytesIO(data))
    return path


@each(("a", "a"), ("a", "./a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), (".",))
def test_a_dataset_with_a_name_twice_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    there = archive(tmp_path / "a.tar", *((name, b"x") for name in names))
    (tmp_path / "out").mkdir()
    with pytest.raises(Refused, match=r"a\.tar contains a name twice"):
        fetch.unpack(there, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def headers() -> st.SearchStrategy[bytes]:
    """Tar files: whole ones of odd members, then some bytes changed."""
    kinds = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
    name = st.sampled_from(
        ["a", "a/b", "./a", "../a", "/a", "", "index.json", "manifest.json", "ä"]
    )
    times = st.sampled_from([0, 1.5, -5, 2**40, 2**70])
    member = st.tuples(name, st.sampled_from(kinds), st.binary(max_size=40), name, times)
    change = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4)
    forms = st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    return st.builds(made, st.lists(member, max_size=4), change, forms)


def made(
    members: list[tuple[str, bytes, bytes, str, float]], changes: list[tuple[int, int]], form: int
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, kind, data, link, time in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mtime = kind, link, time
            entry.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(data))
    raw = bytearray(buffer.getvalue())
    for place, value in changes:
        raw[place % len(raw)] = value
    return bytes(raw)


@FUZZ
@given(st.one_of(headers(), st.binary(max_size=600)))
def test_archives_of_any_bytes_stay_in_their_folder(tmp_path: Path, content: bytes) -> None:
    for left in tmp_path.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    (tmp_path / "out").mkdir()
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    with suppress(RunnerError):
        fetch.unpack(path, tmp_path / "out")
    assert {each.name for each in tmp_path.iterdir()} <= {"out", "a.tar"}
    assert not [each for each in tmp_path.rglob("*") if each.is_symlink()]


@FUZZ
@given(st.one_of(st.binary(max_size=200), st.text(alphabet="[]{}=\"'.,\n\ta:1-", max_size=120)))
def test_a_lock_of_any_bytes_is_read_or_refused(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / images_lock.FILE
    whole = images_lock.text(
        [images_lock.LockedImage("a.sif", "oras://x/a:1", "sha256:" + "0" * 64, 5, "2026")]
    )
    raw = content.encode() if isinstance(content, str) else content
    for text in (raw, whole.encode() + raw, whole.encode().replace(b"a.sif", raw)):
        path.write_bytes(text)
        with suppress(RunnerError):
            for entry in images_lock.read(path):
                assert "/" not in entry.name
