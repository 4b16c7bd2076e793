"""An unpacked image that others made is opened through no link and nowhere else."""

from __future__ import annotations

import os
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from runners.core import untrusted_folder
from runners.core.errors import Refused
from runners.core.progress import Progress
from runners.images import oci_image
from runners.images.facts import image_labels
from runners.registry import oci_layer

from .. import sentences

SECRET = b'{"secret": "of the user"}'


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
    oci_image._copy_runscript(root)
    assert not (root / oci_image.RUNSCRIPT).exists()


def test_a_run_script_is_not_written_through_a_link(root: Path, home: Path) -> None:
    (root / ".singularity.d").mkdir()
    (root / ".singularity.d/runscript").write_text("#!/bin/sh\n")
    (root / oci_image.RUNSCRIPT).symlink_to(home / "new")
    with suppress(FileExistsError):
        oci_image._copy_runscript(root)
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
    with sentences.raises("image-labels-damaged"):
        image_labels.read(root)
