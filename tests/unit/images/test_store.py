"""The images folder: what points where, what stays and what goes; and the locks around it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import multiprocessing
import os
import socket
import time
from pathlib import Path

import pytest

from runners.core.locks import shared
from runners.images.store import images_lock, in_use, store
from runners.images.store.store import Stored

from .. import sentences
from ..core.test_sif import make_sif
from ..listener import Said


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty images folder."""
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


def keep(images: Path, label: str, manifest: str = "") -> Stored:
    part = make_sif(images / "part", {"name": label})
    digest = f"sha256:{hashlib.sha256(part.read_bytes()).hexdigest()}"
    return store.keep(part, digest, f"oras://r.org/{label}:v1", manifest)


def test_what_is_kept_is_found_by_its_digest(images: Path) -> None:
    kept = keep(images, "a", "sha256:m")
    assert store.find(kept.digest) == kept == store.of_manifest("sha256:m")
    assert store.of_manifest("sha256:other") is None
    assert store.digest_named(kept.path) == kept.digest
    assert os.access(kept.path, os.X_OK)


def test_a_damaged_file_counts_as_absent(images: Path) -> None:
    kept = keep(images, "a")
    with kept.path.open("r+b") as file:
        file.truncate(kept.size - 100)
    assert store.find(kept.digest) is None
    with kept.path.open("ab") as file:
        file.write(bytes(200))
    assert store.find(kept.digest) is None, "longer than it was"


def test_names_point_and_move(images: Path) -> None:
    first, second = keep(images, "a"), keep(images, "b")
    assert store.point("x.sif", first.digest) == ""
    assert store.point("x.sif", second.digest) == first.digest
    assert (images / "x.sif").resolve() == second.path
    assert os.readlink(images / "x.sif") == second.path.name
    assert store.names() == {"x.sif": second.digest}


def test_a_file_or_link_of_somebody_else_is_not_replaced(images: Path) -> None:
    kept = keep(images, "a")
    (images / "file.sif").write_text("mine")
    (images / "link.sif").symlink_to("/elsewhere/image.sif")
    for name in ("file.sif", "link.sif"):
        with sentences.raises("image-name-taken"):
            store.point(name, kept.digest)
    assert [path.name for path in store.others()] == ["file.sif", "link.sif"]


def test_nothing_is_pruned_beside_a_pull(images: Path) -> None:
    keep(images, "a")
    with shared(store.pulls_lock(), Said()), sentences.raises("lock-held"):
        in_use.prune(dry_run=False)


def test_an_abandoned_folder_is_swept(images: Path) -> None:
    host = socket.gethostname()
    gone = store.pulls() / f"k.{host}.4194304"  # above Linux's largest process number
    alive = store.pulls() / f"k.{host}.{os.getppid()}"
    elsewhere = store.pulls() / "k.other.host.1"
    old = store.pulls() / "k.old.host.1"
    for folder in (gone, alive, elsewhere, old):
        (folder / "tree" / "closed").mkdir(parents=True)
    (gone / "tree" / "closed" / "file").touch()
    (gone / "tree" / "closed").chmod(0o500)
    long_ago = time.time() - 2 * store.SECONDS_TO_BE_OLD
    os.utime(old, (long_ago, long_ago))
    assert sorted(store.sweep_pulls()) == sorted([gone, old])
    assert alive.exists()
    assert elsewhere.exists()


def _work(number: int) -> tuple[int, int]:
    with store.workplace("the same", Said()) as folder:
        before = len([path for path in store.pulls().iterdir() if path.is_dir()])
        (folder / "part").touch()
        time.sleep(0.01)
        return number, before


@pytest.mark.usefixtures("images")
def test_only_one_works_on_an_image() -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        assert {before for _, before in pool.imap_unordered(_work, range(24))} == {1}
    assert [path for path in store.pulls().iterdir() if path.is_dir()] == []


@pytest.mark.usefixtures("images")
def test_a_file_system_without_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lustre mounted without flock reports it; no such file system can be made here."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(pool.map(_work, range(16))) == 16, "each has a folder of its own"
    images_lock.record(
        tmp_path / images_lock.FILE,
        images_lock.LockedImage("a.sif", "x", "sha256:" + "0" * 64, 1, ""),
    )


def test_a_folder_that_cannot_be_written(images: Path, tmp_path: Path) -> None:
    images.rmdir()
    images.write_text("a file")
    with sentences.raises("file-not-written"), shared(store.pulls_lock(), Said()):
        pass


def test_programs_read_the_same_of_stored_images_and_of_files(images: Path) -> None:
    stored = keep(images, "a")
    os.symlink(stored.path, images / "a.sif")
    named = {image.name: image.facts for image in in_use.named_images()}
    assert (named["a.sif"]["digest"], named["a.sif"]["used_by"]) == (stored.digest, [])
    file = make_sif(images / "b.sif", {})
    facts = store.facts_of_file(file)
    assert (facts["name"], facts["digest"], facts["path"]) == ("b.sif", "", str(file))
    assert set(facts) < set(named["a.sif"])
