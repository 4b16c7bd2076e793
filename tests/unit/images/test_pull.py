"""What a pull leaves and records, with images that are files; registries are in tests/real."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runners.cli.progress import Lines
from runners.core.errors import NotFound, NotVerified, Refused, UsageError
from runners.images import container_runtime, local_image, prebuilt, pull
from runners.images.pull import PullRequest
from runners.images.store import images_lock, store
from runners.registry import reference

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
    other = pull.pull(request("two"), Said())
    store.point("one.sif", other.digest)
    assert local_image.on_disk("one.sif").path == stored.path
    store.remove(stored.digest)
    with pytest.raises(NotFound, match="is not on this machine as") as error:
        local_image.on_disk("one.sif")
    assert str(error.value.remedies[0]).startswith("runner pull /")


def test_a_recorded_name_is_not_taken_over(desk: Path) -> None:
    pull.pull(request("one"), Said())
    with pytest.raises(Refused, match=r"images\.lock has one\.sif from elsewhere"):
        pull.pull(request("two", name="one.sif"), Said())
    pull.pull(request("two", name="other.sif"), Said())
    assert request("two").name == "other.sif", "the name that it was given stays"
    assert sorted(store.names()) == ["one.sif", "other.sif"]


def test_what_is_refused_leaves_nothing(desk: Path) -> None:
    with pytest.raises(NotVerified, match="is not what it should be"):
        pull.pull(request("one", digest="sha256:" + "0" * 64), Said())
    images = desk.parent / "images"
    assert [path.name for path in images.iterdir() if path.name != ".pulls"] == []
    assert [path for path in (images / ".pulls").iterdir() if path.is_dir()] == []
    assert not (desk / images_lock.FILE).exists()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("FATAL:   write /x: no space left on device", "the disk became full"),
        ("FATAL:   write /x: disk quota exceeded", "the disk became full"),
        ("INFO:  a\nFATAL:   GET x: UNAUTHORIZED: no", "UNAUTHORIZED: no"),
        ("", "said nothing"),
    ],
)
def test_the_runtimes_words(output: str, words: str) -> None:
    assert words in str(container_runtime.fault("x", output, Path("/x")))


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


def refused(uri: str | None) -> str:
    with pytest.raises(UsageError) as wrong:
        pull.request_for(uri, Told())
    return str(wrong.value)


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [
        ("horovod_gpu.sif", "runner pull gpu"),
        ("horovod_gpu", "runner pull gpu"),
        ("horovod_gpu13", "runner pull gpu13"),
        ("horovod_cpu.arm64.sif", "runner pull cpu --arch arm64"),
        (None, "runner pull gpu"),
        ("", "runner pull gpu"),
        ("gpus", "did you mean gpu?"),
    ],
)
def test_a_name_that_is_no_address_leads_to_the_image(
    desk: Path, uri: str | None, remedy: str
) -> None:
    said = refused(uri)
    assert remedy in said
    assert "oras://, docker:// or a .sif file" in said


def test_a_file_of_that_name_is_pulled(desk: Path) -> None:
    make_sif(desk / "horovod_gpu.sif", {"name": "mine"})
    assert pull.request_for("horovod_gpu.sif", Told()).reference.kind == "file"


@pytest.mark.parametrize("short", ["cpu", "gpu", "gpu13"])
def test_without_a_source_the_image_is_built_or_an_administrator_asked(short: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prebuilt, "source", lambda environ: prebuilt.PrebuiltSource())
        said = refused(short)
    assert f"try: runner build {short}" in said.splitlines()[-1]
    assert "by an administrator: [images] source in the site's profile" in said
