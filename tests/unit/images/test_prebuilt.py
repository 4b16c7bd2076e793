"""Prebuilt images: where they are, what a list says, and what `--or-build` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli.images.pull import pull_command
from runners.core.errors import UsageError
from runners.core.progress import Progress
from runners.images import local_image, prebuilt, prebuilt_list
from runners.images.prebuilt import PrebuiltSource
from runners.images.prebuilt_list import PrebuiltImage

from .. import sentences


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A project's folder, a user's own file with a source, no site."""
    monkeypatch.chdir(tmp_path)
    users = tmp_path / "own" / "runner"
    users.mkdir(parents=True)
    (users / "runner.toml").write_text('[images]\nsource = "oras://example.org/mine/"\n')
    return {"XDG_CONFIG_HOME": str(users.parent), "RUNNER_SITE": "none"}


def test_the_nearest_source_wins(env: dict[str, str]) -> None:
    assert prebuilt.source(env).text == "oras://example.org/mine"
    Path("runner.toml").write_text('[images]\nsource = "oras://example.org/team"\n')
    assert prebuilt.source(env).text == "oras://example.org/team"
    env["RUNNER_IMAGES_SOURCE"] = "/shared/images"
    assert prebuilt.source(env) == ("/shared/images", "RUNNER_IMAGES_SOURCE")


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ('[images]\nsource = "docker://a/b"\n', "image-source-malformed"),
        ('[images]\nsource = "images"\n', "image-source-malformed"),
        ('[images]\nsorce = "oras://a/b"\n', "table-invalid"),
        ("[images]\nsource = 5\n", "table-invalid"),
        ('[images]\nkey = "release-key.asc"\n', "table-invalid"),
    ],
)
def test_bad_sources_are_refused(env: dict[str, str], text: str, id: str) -> None:
    Path("runner.toml").write_text(text)
    with sentences.raises(id):
        prebuilt.source(env)


def test_a_folder_is_typed_as_any_path(env: dict[str, str], tmp_path: Path) -> None:
    assert prebuilt.typed("images/") == f"{tmp_path}/images"
    assert prebuilt.typed("~/images") == str(Path("~/images").expanduser())
    with sentences.raises("image-source-malformed"):
        prebuilt.typed("docker://example.org/kit")


# The list

CPU, GPU = "horovod_cpu", "horovod_gpu"
DIGEST = "sha256:" + "a" * 64


def listed(folder: Path, *images: PrebuiltImage) -> PrebuiltSource:
    prebuilt_list.write(str(folder), images, False, Progress())
    return PrebuiltSource(str(folder), "runner.toml")


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    images = (
        PrebuiltImage(CPU, "0.9", "amd64", DIGEST),
        PrebuiltImage(GPU, "0.9", "arm64", DIGEST),
    )
    listed(tmp_path, *reversed(images))
    assert prebuilt_list.read(str(tmp_path), False) == images
    assert (tmp_path / "prebuilt.toml").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("", "list-form-unknown"),
        ("form = 2\n", "list-form-unknown"),
        ("form = [", "toml-malformed"),
        ("form = 1\nmore = 1\n", "table-invalid"),
        ('form = 1\n[[image]]\nname = "x"\n', "table-invalid"),
        (
            'form = 1\n[[image]]\nname = "x"\nversion = "1"\narchitecture = ""\ndigest = "md5"\n',
            "table-invalid",
        ),
    ],
)
def test_a_file_that_is_no_list(tmp_path: Path, text: str, id: str) -> None:
    (tmp_path / "prebuilt.toml").write_text(text)
    with sentences.raises(id):
        prebuilt_list.read(str(tmp_path), False)


@pytest.mark.parametrize(
    ("name", "short"), [("horovod_cpu.sif", "cpu"), ("horovod_gpu.sif", "gpu"), ("x.sif", "cpu")]
)
def test_a_missing_image_is_pulled_or_built(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, short: str
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    monkeypatch.setenv("RUNNER_SITE", "none")
    for place, verbs in ((env["XDG_CONFIG_HOME"], ["pull", "build"]), ("/nowhere", ["build"])):
        monkeypatch.setenv("XDG_CONFIG_HOME", place)
        with sentences.raises("image-missing", *(f"runner {verb} {short}" for verb in verbs)):
            local_image.find(name)


def test_or_build_is_for_our_images_as_they_are() -> None:
    others = (["--arch", "ppc64le"], ["--name", "x"], ["--no-https"], ["--update"], ["--json"])
    for words in (["oras://a.b/c:1"], *(["cpu", *options] for options in others)):
        done = CliRunner().invoke(pull_command, [*words, "--or-build"])
        assert isinstance(done.exception, UsageError), words
