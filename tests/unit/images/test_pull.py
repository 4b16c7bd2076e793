"""What a pull leaves and records, with images that are files; registries are in tests/real."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runners.cli.progress import Lines
from runners.images import container_runtime, local_image, prebuilt, pull
from runners.images.pull import PullRequest
from runners.images.store import images_lock, store
from runners.registry import reference

from .. import sentences
from ..core.test_sif import make_sif
from ..listener import Said, Told

ARCH = "amd64"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to pull in, with two images beside it."""
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("one", "two"):
        make_sif(tmp_path / f"{name}.sif", {"name": name})
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def request(image: str, **changes: object) -> PullRequest:
    found = reference.parse(f"../{image}.sif")
    return replace(PullRequest(found, pull.name_of(found), ARCH), **changes)  # type: ignore[arg-type]


def test_a_name_of_the_lock_means_what_it_records(desk: Path) -> None:
    """Names are shared by all projects on scratch; another one may have moved it."""
    stored = pull.pull(request("one"), Said())
    moved = pull.pull(request("two"), Said())
    store.point("one.sif", moved.digest)
    assert local_image.on_disk("one.sif").path == stored.path
    store.remove(stored.digest)
    source = desk.parent / "one.sif"
    with sentences.raises("locked-image-missing", f"runner pull {source} --name one.sif"):
        local_image.on_disk("one.sif")


def test_a_recorded_name_is_not_taken_over(desk: Path) -> None:
    pull.pull(request("one"), Said())
    with sentences.raises("lock-has-other-source"):
        pull.pull(request("two", name="one.sif"), Said())
    pull.pull(request("two", name="other.sif"), Said())
    assert request("two").name == "other.sif", "the name that it was given stays"
    assert sorted(store.names()) == ["one.sif", "other.sif"]


def test_what_is_refused_leaves_nothing(desk: Path) -> None:
    with sentences.raises("pulled-digest-wrong"):
        pull.pull(request("one", digest="sha256:" + "0" * 64), Said())
    images = desk.parent / "images"
    assert [path.name for path in images.iterdir() if path.name != ".pulls"] == []
    assert [path for path in (images / ".pulls").iterdir() if path.is_dir()] == []
    assert not (desk / images_lock.FILE).exists()


@pytest.mark.parametrize(
    ("output", "id", "evidence"),
    [
        ("FATAL:   write /x: no space left on device", "disk-full", "no space left on device"),
        ("FATAL:   write /x: disk quota exceeded", "disk-full", "disk quota exceeded"),
        ("INFO:  a\nFATAL:   GET x: UNAUTHORIZED: no", "pull-failed", "GET x: UNAUTHORIZED: no"),
        ("", "pull-failed", "the runtime said nothing"),
    ],
)
def test_the_runtimes_words(output: str, id: str, evidence: str) -> None:
    found = container_runtime.fault("x", output, Path("/x")).diagnosis
    assert found.id == id
    assert evidence in found.evidence


def test_lines_are_told_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.begin("pulling x", 2_000_000)
    lines.at(1_000_000)
    lines.began -= 20
    lines.told -= 20
    lines.at(1_500_000)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "pulling x (2.0 MB)"
    # 1.5 MB in the 20 s and the time that the test itself takes
    assert re.match(r"  1\.5 MB of 2\.0 MB, 7[0-5]\.\d kB/s", said[1])
    assert len(said) == 2


@pytest.mark.parametrize(
    ("uri", "id", "remedy"),
    [
        ("horovod_gpu.sif", "pull-name-unknown", "runner pull gpu"),
        ("horovod_gpu", "pull-name-unknown", "runner pull gpu"),
        ("horovod_gpu13", "pull-name-unknown", "runner pull gpu13"),
        ("horovod_cpu.arm64.sif", "pull-name-unknown", "runner pull cpu --arch arm64"),
        ("gpus", "pull-name-unknown", "runner pull gpu"),
        (None, "pull-nothing-named", "runner pull gpu"),
        ("", "pull-nothing-named", "runner pull gpu"),
    ],
)
def test_a_name_that_is_no_address_leads_to_the_image(
    desk: Path, uri: str | None, id: str, remedy: str
) -> None:
    with sentences.raises(id, remedy):
        pull.request_for(uri, Told())


def test_a_file_of_that_name_is_pulled(desk: Path) -> None:
    make_sif(desk / "horovod_gpu.sif", {"name": "mine"})
    assert pull.request_for("horovod_gpu.sif", Told()).reference.kind == "file"


@pytest.mark.parametrize("short", ["cpu", "gpu", "gpu13"])
def test_without_a_source_the_image_is_built_or_an_administrator_asked(short: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prebuilt, "source", lambda environ: prebuilt.PrebuiltSource())
        with sentences.raises("no-image-source", f"runner build {short}"):
            pull.request_for(short, Told())
