"""An image with another content than `build` or `pull` recorded: not launched, and not run."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from containers import build_record
from runners.core import digest as file_digest
from runners.core.model import ImageInfo
from runners.core.progress import Progress
from runners.images import recorded_digest
from runners.images.facts import digest_cache
from runners.images.recorded_digest import Recorded
from runners.images.store import images_lock, store
from runners.script import ranks

from .. import sentences
from ..core.test_sif import make_sif
from ..listener import Said
from ..planning.test_stage_image import solved

Shown = list[Said]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without runner's files; a file counts as at rest the moment it is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(digest_cache, "REST", -1)
    return tmp_path


def built(folder: Path) -> Path:
    """Return an image as a build leaves it."""
    image = make_sif(folder / "a.sif", {"name": "a"})
    build_record.write(image, "key", f"sha256:{file_digest.sha256(image)}")
    digest_cache.record(image, build_record.digest(image))
    return image


def pulled(folder: Path) -> Path:
    """Return an image as a pull leaves it."""
    part = make_sif(folder / "images" / "part", {"name": "a"})
    return store.keep(part, f"sha256:{file_digest.sha256(part)}", "oras://r.org/a:v1", "").path


def flip(image: Path) -> None:
    """Change one byte in the middle, and put the modification time back."""
    before = image.stat()
    with image.open("r+b") as file:
        file.seek(before.st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (image.stat().st_size, image.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def launched(image: Path) -> tuple[Recorded, Shown]:
    """Return what a launch does with the image, and what it shows meanwhile."""
    shown: Shown = []

    @contextmanager
    def display() -> Iterator[Progress]:
        shown.append(Said())
        yield shown[-1]

    return recorded_digest.check(image, display), shown


def test_the_next_command_after_a_flipped_byte(here: Path) -> None:
    image = pulled(here)
    flip(image)
    again = f"rm {image} && runner pull oras://r.org/a:v1"
    with sentences.raises("image-not-as-recorded", again):
        launched(image)


def test_a_new_stamp_is_read_once_with_a_bar(here: Path) -> None:
    image = built(here)
    image.chmod(0o700)
    recorded, (shown,) = launched(image)
    assert shown.said == [f"reading {image}, whose digest is not known"]
    assert launched(image) == (recorded, [])


def test_another_file_under_the_name_of_a_build_is_refused(here: Path) -> None:
    image = built(here)
    make_sif(image, {"name": "another"})
    with sentences.raises("image-not-as-recorded") as error:
        launched(image)
    assert f"rm {build_record.path(image)}" in str(error.value.remedies[0])


def test_what_nobody_recorded_is_not_read(here: Path) -> None:
    image = make_sif(here / "mine.sif", {})
    assert launched(image) == (Recorded(), [])
    build_record.path(image).write_text('{"key": "k", "digest": ["$(id)"]}')
    assert launched(image) == (Recorded(), []), "no digest"
    assert launched(here / "nothing.sif") == (Recorded(), [])


def test_a_digest_of_images_lock_counts(here: Path) -> None:
    image = make_sif(here / "a.sif", {})
    entry = images_lock.LockedImage("a.sif", "oras://x/a", "sha256:" + "0" * 64, 7, "2026-11-26")
    images_lock.record(images_lock.here(), entry)
    with sentences.raises("image-not-as-recorded"):
        launched(image)


def start_of_job(image: Path, recorded: Recorded, folder: Path) -> tuple[int, str, bool]:
    """Run the lines of a job about its image; return code, output, and whether it was read."""
    plan = solved("none", 1)
    plan = replace(
        plan,
        spec=replace(plan.spec, image=ImageInfo(image)),
        verified_digest=recorded.digest,
        verified_stamp=recorded.stamp,
    )
    read = folder / "read"
    read.unlink(missing_ok=True)
    marked = f"sha256sum() {{ touch {shlex.quote(str(read))}; command sha256sum; }}"
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / ranks.IMAGE_STAMP).write_text(f"{recorded.stamp}\n")
    text = "\n".join([f"run={shlex.quote(str(folder))}", marked, *ranks.image_check(plan)])
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr, read.exists()


def test_the_job_compares_the_stamp_and_reads_only_a_changed_file(here: Path) -> None:
    image = built(here)
    recorded, _ = launched(image)
    assert start_of_job(image, recorded, here) == (0, "", False)
    image.chmod(0o700)
    assert start_of_job(image, recorded, here) == (0, "", True)
    flip(image)
    words = f"runner: {image} is no longer the file that was launched\n"
    assert start_of_job(image, recorded, here) == (81, words, True)
    image.unlink()
    assert start_of_job(image, recorded, here) == (0, "", False), "the runtime says so better"
