"""Prebuilt images: where they are, and what `--or-build` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli.images.registry import pull_command
from runners.core.errors import NotFound, UsageError
from runners.core.version import __version__
from runners.images import local_image
from runners.images.release import prebuilt


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A project's folder, a user's own file with a source, no site."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own" / "runner"
    own.mkdir(parents=True)
    text = '[images]\nsource = "oras://example.org/mine/"\nkey = "~/key.asc"\n'
    (own / "runner.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(own.parent), "RUNNER_SITE": "none"}


def test_the_nearest_source_wins(env: dict[str, str]) -> None:
    def there() -> str:
        return prebuilt.release_source(env).source

    assert there() == "oras://example.org/mine"
    Path("runner.toml").write_text('[images]\nsource = "oras://example.org/team"\n')
    assert there() == "oras://example.org/team"
    assert prebuilt.release_source(env).key == str(Path("~/key.asc").expanduser()), (
        "each on its own"
    )
    env["RUNNER_IMAGES_SOURCE"] = "/shared/images"
    found = prebuilt.release_source(env)
    assert (found.source, found.origin) == ("/shared/images", "RUNNER_IMAGES_SOURCE")


def test_a_site_has_a_source_for_all_its_users(tmp_path: Path) -> None:
    text = 'title = "Here"\n[images]\nsource = "/shared/images"\nkey = "/shared/key.asc"\n'
    (tmp_path / "here.toml").write_text(text)
    env = {"RUNNER_SITES_PATH": str(tmp_path), "RUNNER_SITE": "here", "XDG_CONFIG_HOME": "/none"}
    assert prebuilt.release_source(env) == prebuilt.ReleaseSource(
        "/shared/images", "/shared/key.asc", "site here"
    )


def test_a_mirror_in_the_sites_folder_needs_no_option(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (tmp_path / "here.toml").write_text(f'title = "Here"\n[paths]\nimages = "{images}"\n')
    env = {"RUNNER_SITES_PATH": str(tmp_path), "RUNNER_SITE": "here", "XDG_CONFIG_HOME": "/none"}
    (images / prebuilt.file_of("0.0.1")).touch()
    assert prebuilt.release_source(env).source == "", "of another version"
    for name in (prebuilt.file_of(__version__), prebuilt.KEY_FILE):
        (images / name).touch()
    assert prebuilt.release_source(env) == prebuilt.ReleaseSource(
        str(images), f"{images}/release-key.asc", "site here"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[images]\nsource = "docker://a/b"\n', "'docker://a/b' is no source of images"),
        ('[images]\nsource = "images"\n', "'images' is no source of images"),
        ('[images]\nsorce = "oras://a/b"\n', "unknown key sorce; did you mean source"),
        ("[images]\nsource = 5\n", "source"),
        ("[images]\nkey = 5\n", "key"),
    ],
)
def test_bad_sources_are_refused(env: dict[str, str], text: str, says: str) -> None:
    Path("runner.toml").write_text(text)
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        prebuilt.release_source(env)


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
