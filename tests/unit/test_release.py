"""Prebuilt images: which address `cpu` and `gpu` stand for, and what brings a missing image."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners import __version__
from runners.core.errors import NotFound, UsageError
from runners.images import local, release


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A project's folder, and a user's own file with a source."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own" / "runner"
    own.mkdir(parents=True)
    (own / "runner.toml").write_text('[images]\nsource = "oras://example.org/mine/"\n')
    return {"XDG_CONFIG_HOME": str(own.parent)}


def test_the_nearest_source_wins(env: dict[str, str]) -> None:
    tag = f"{__version__}-arm64"
    assert release.image("cpu", "arm64", env).text == f"oras://example.org/mine/horovod_cpu:{tag}"
    Path("runner.toml").write_text('[images]\nsource = "oras://example.org/team"\n')
    assert release.image("gpu", "arm64", env).text == f"oras://example.org/team/horovod_gpu:{tag}"
    env["RUNNER_IMAGES_SOURCE"] = "oras://localhost:5000/x"
    assert release.image("cpu", "arm64", env).text == f"oras://localhost:5000/x/horovod_cpu:{tag}"


def test_without_a_source_the_image_is_built() -> None:
    with pytest.raises(NotFound) as refused:
        release.image("gpu", "amd64", {"XDG_CONFIG_HOME": "/nowhere"})
    assert str(refused.value.remedies[0]) == "runner build gpu"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[images]\nsource = "docker://a/b"\n', "'docker://a/b' is no source of images"),
        ('[images]\nsorce = "oras://a/b"\n', "unknown key sorce; did you mean source"),
        ("[images]\nsource = 5\n", "source"),
        ('[images]\nsource = "oras://a b/c"\n', "it holds a space"),
    ],
)
def test_bad_sources_are_refused(env: dict[str, str], text: str, says: str) -> None:
    Path("runner.toml").write_text(text)
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        release.image("cpu", "amd64", env)


@pytest.mark.parametrize(
    ("name", "short"), [("horovod_cpu.sif", "cpu"), ("horovod_gpu.sif", "gpu"), ("x.sif", "cpu")]
)
def test_a_missing_image_is_pulled_where_there_is_a_source(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, short: str
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    for place, remedy in ((env["XDG_CONFIG_HOME"], "pull"), ("/nowhere", "build")):
        monkeypatch.setenv("XDG_CONFIG_HOME", place)
        with pytest.raises(NotFound) as missing:
            local.find(name)
        assert str(missing.value.remedies[0]) == f"runner {remedy} {short}"
