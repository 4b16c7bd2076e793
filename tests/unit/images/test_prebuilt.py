"""Prebuilt images: where they are, what a list says, and what `--or-build` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli.images.pull import pull_command
from runners.core.errors import NotFound, Refused, UsageError
from runners.core.progress import Progress
from runners.images import local_image, prebuilt, prebuilt_list
from runners.images.prebuilt import PrebuiltSource
from runners.images.prebuilt_list import PrebuiltImage


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A project's folder, a user's own file with a source, no site."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own" / "runner"
    own.mkdir(parents=True)
    (own / "runner.toml").write_text('[images]\nsource = "oras://example.org/mine/"\n')
    return {"XDG_CONFIG_HOME": str(own.parent), "RUNNER_SITE": "none"}


def test_the_nearest_source_wins(env: dict[str, str]) -> None:
    assert prebuilt.source(env).text == "oras://example.org/mine"
    Path("runner.toml").write_text('[images]\nsource = "oras://example.org/team"\n')
    assert prebuilt.source(env).text == "oras://example.org/team"
    env["RUNNER_IMAGES_SOURCE"] = "/shared/images"
    assert prebuilt.source(env) == ("/shared/images", "RUNNER_IMAGES_SOURCE")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[images]\nsource = "docker://a/b"\n', "'docker://a/b' is no source of images"),
        ('[images]\nsource = "images"\n', "'images' is no source of images"),
        ('[images]\nsorce = "oras://a/b"\n', "unknown key sorce; did you mean source"),
        ("[images]\nsource = 5\n", "source"),
        ('[images]\nkey = "release-key.asc"\n', "unknown key key"),
    ],
)
def test_bad_sources_are_refused(env: dict[str, str], text: str, says: str) -> None:
    Path("runner.toml").write_text(text)
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        prebuilt.source(env)


def test_a_folder_is_typed_as_any_path(env: dict[str, str], tmp_path: Path) -> None:
    assert prebuilt.typed("images/") == f"{tmp_path}/images"
    assert prebuilt.typed("~/images") == str(Path("~/images").expanduser())
    with pytest.raises(UsageError, match="is no source of images"):
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
    ("text", "error", "says"),
    [
        ("", Refused, "is of form None"),
        ("form = 2\n", Refused, "this runner reads form 1"),
        ("form = [", UsageError, "is not valid TOML"),
        ("form = 1\nmore = 1\n", UsageError, "unknown key more"),
        ('form = 1\n[[image]]\nname = "x"\n', UsageError, "lacks version"),
        (
            'form = 1\n[[image]]\nname = "x"\nversion = "1"\narchitecture = ""\ndigest = "md5"\n',
            UsageError,
            "sha256: and 64 hexadecimal digits",
        ),
    ],
)
def test_a_file_that_is_no_list(
    tmp_path: Path, text: str, error: type[Exception], says: str
) -> None:
    (tmp_path / "prebuilt.toml").write_text(text)
    with pytest.raises(error) as refused:
        prebuilt_list.read(str(tmp_path), False)
    assert says in str(refused.value)


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
        with pytest.raises(NotFound) as missing:
            local_image.find(name)
        assert list(map(str, missing.value.remedies)) == [f"runner {v} {short}" for v in verbs]


def test_or_build_is_for_our_images_as_they_are() -> None:
    others = (["--arch", "ppc64le"], ["--name", "x"], ["--no-https"], ["--update"], ["--json"])
    for words in (["oras://a.b/c:1"], *(["cpu", *options] for options in others)):
        done = CliRunner().invoke(pull_command, [*words, "--or-build"])
        assert isinstance(done.exception, UsageError), words
