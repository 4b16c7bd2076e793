"""Prebuilt images: where they are, and what `--or-build` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from containers import build_record, plan
from containers.plan import BuildOptions
from runners import __version__
from runners.cli.images.registry import pull_command
from runners.core.errors import NotFound, NotVerified, RunnerError, SystemFault, UsageError
from runners.core.progress import Listener
from runners.images import build, local_image
from runners.images.release import prebuilt, release


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


# runner pull cpu --or-build


class Told(Listener):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def tell(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A source of images, and no image of this checkout."""
    monkeypatch.setenv("RUNNER_IMAGES_SOURCE", "oras://example.org/kit")
    monkeypatch.setenv("RUNNER_SITE", "none")
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def verified(*_: object) -> None:
        raise error

    monkeypatch.setattr(release, "verified", verified)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("error", [SystemFault("it is down"), NotFound("it is behind")])
def test_what_cannot_be_pulled_is_to_be_built(
    error: RunnerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(error, monkeypatch)
    told = Told()
    assert build.pull_unless_current("cpu", told) is None
    assert told.texts == [str(error), "building instead"]


@pytest.mark.usefixtures("source")
def test_a_wrong_signature_is_no_reason_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(NotVerified("altered"), monkeypatch)
    with pytest.raises(NotVerified, match="altered"):
        build.pull_unless_current("cpu", Told())


@pytest.mark.usefixtures("source")
def test_a_current_build_is_not_replaced_by_a_prebuilt_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_with(SystemFault("it was asked"), monkeypatch)
    made = plan.make("cpu", BuildOptions())
    made.output.parent.mkdir()
    made.output.write_text("an image")
    build_record.write(made.output, made.key)
    told = Told()
    assert build.pull_unless_current("cpu", told) is None
    assert told.texts == []


def test_or_build_is_for_our_images_as_they_are() -> None:
    for words in (["oras://a.b/c:1"], ["cpu", "--arch", "ppc64le"], ["gpu", "--name", "x"]):
        done = CliRunner().invoke(pull_command, [*words, "--or-build"])
        assert isinstance(done.exception, UsageError), words
