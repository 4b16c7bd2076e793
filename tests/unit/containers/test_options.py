"""Options of `runner build` that contradict each other are refused before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.core.errors import RunnerError

from .. import sentences

OF_OTHER_KIND = "build-option-of-other-kind"


def build(words: list[str]) -> tuple[int, str]:
    """Return the exit code, and the id of our error or the words of click's."""
    done = CliRunner().invoke(cli, ["build", *words])
    if isinstance(done.exception, RunnerError):
        return done.exception.exit_code, sentences.told(done.exception)[0]
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "build-target-missing"),
        (["cpu", "--requirements", "x.txt"], "from-missing"),
        (["x.def", "--def", "x.txt"], "from-missing"),
        (["cpu", "--from", "base.sif"], "from-and-target"),
        (["--from", "base.sif"], "from-needs-addition"),
        (["--from", "base.sif", "-r", "x.txt", "--def", "x.txt"], "from-needs-addition"),
        (["--from", "base.sif", "-r", "x.txt", "--horovod"], "from-needs-addition"),
        (["cpu", "--horovod"], "from-missing"),
        (["wheel", "cpu", "--horovod"], "--horovod"),
        (["--from", "base.sif", "--horovod", "--build-arg", "a=b"], OF_OTHER_KIND),
        (["--from", "base.sif", "-r", "x.txt", "--arch", "arm64"], OF_OTHER_KIND),
        (["--from", "base.sif", "-r", "x.txt", "--build-arg", "a=b"], OF_OTHER_KIND),
        (["--from", "base.sif", "--def", "x.txt", "--index-url", "u"], OF_OTHER_KIND),
        (["x.def", "--wheelhouse", "."], OF_OTHER_KIND),
        (["x.def", "--base", "debian"], OF_OTHER_KIND),
        (["cpu", "--build-arg", "a=b"], OF_OTHER_KIND),
        (["x.def", "--build-arg", "ab"], "build-arg-malformed"),
        (["cpu", "gpu"], "unexpected extra argument"),
        (["env", "new", "--output", "x.tar"], "--output"),
        (["tpu"], "image-unknown"),
        (["cpu", "--pack-level", "0"], "'--pack-level': 0 is not in the range 1<=x<=22"),
        (["x.def", "--pack-level", "99"], "'--pack-level': 99 is not in the range 1<=x<=22"),
        (["--from", "base.sif", "-r", "x.txt", "--pack-level", "x"], "'x' is not a valid integer"),
        (["wheel", "cpu", "--pack-level", "6"], "--pack-level"),
    ],
)
def test_what_would_not_be_heard_is_refused(words: list[str], told: str, here: Path) -> None:
    (here / "x.txt").write_text("Bootstrap: docker\nFrom: x\n")
    code, said = build(words)
    assert (code, told in said) == (2, True), said


@pytest.mark.parametrize("words", [["cpu"], ["x.def"], ["--from", "base.sif", "-r", "x.txt"]])
@pytest.mark.parametrize("level", ["0", "23", "x", "-1", "6.5"])
def test_a_level_that_is_none_is_refused_before_anything_is_done(
    words: list[str], level: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "x.txt").touch()
    monkeypatch.setenv("RUNNER_PACK_LEVEL", level)
    assert build(words) == (2, "pack-level-invalid")
