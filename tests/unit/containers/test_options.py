"""Options of `runner build` that contradict each other are refused before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.core.errors import RunnerError


def build(words: list[str]) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["build", *words])
    if isinstance(done.exception, RunnerError):
        return done.exception.exit_code, str(done.exception)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name what to build: one of cpu, gpu, gpu13, or a definition file"),
        (["cpu", "--requirements", "x.txt"], "go with --from IMAGE"),
        (["x.def", "--def", "x.txt"], "go with --from IMAGE"),
        (["cpu", "--from", "base.sif"], "cpu: --from already names the base image"),
        (["--from", "base.sif"], "--requirements FILE, --horovod, or --def FILE"),
        (["--from", "base.sif", "-r", "x.txt", "--def", "x.txt"], "; exactly one"),
        (["--from", "base.sif", "-r", "x.txt", "--horovod"], "; exactly one"),
        (["cpu", "--horovod"], "go with --from IMAGE"),
        (["wheel", "cpu", "--horovod"], "--horovod"),
        (["--from", "base.sif", "--horovod", "--build-arg", "a=b"], "is for a definition file or"),
        (["--from", "base.sif", "-r", "x.txt", "--arch", "arm64"], "is for a packaged image, not"),
        (["--from", "base.sif", "-r", "x.txt", "--build-arg", "a=b"], "or --from with --def, not"),
        (["--from", "base.sif", "--def", "x.txt", "--index-url", "u"], "or --from with --requirem"),
        (["x.def", "--wheelhouse", "."], "--wheelhouse is for a packaged image or --from with"),
        (["x.def", "--base", "debian"], "is for a packaged image, not for a definition file"),
        (["cpu", "--build-arg", "a=b"], "--build-arg is for a definition file or"),
        (["x.def", "--build-arg", "ab"], "--build-arg ab: not NAME=VALUE"),
        (["cpu", "gpu"], "unexpected extra argument"),
        (["env", "new", "--output", "x.tar"], "--output"),
        (["tpu"], "no image named 'tpu'"),
        (["cpu", "--pack-level", "0"], "'--pack-level': 0 is not in the range 1<=x<=22"),
        (["x.def", "--pack-level", "99"], "'--pack-level': 99 is not in the range 1<=x<=22"),
        (["--from", "base.sif", "-r", "x.txt", "--pack-level", "x"], "'x' is not a valid integer"),
        (["wheel", "cpu", "--pack-level", "6"], "--pack-level"),
    ],
)
def test_what_would_not_be_heard_is_refused(words: list[str], message: str, here: Path) -> None:
    (here / "x.txt").write_text("Bootstrap: docker\nFrom: x\n")
    code, said = build(words)
    assert (code, message in said) == (2, True), said


@pytest.mark.parametrize("what", [["cpu"], ["x.def"], ["--from", "base.sif", "-r", "x.txt"]])
@pytest.mark.parametrize("level", ["0", "23", "x", "-1", "6.5"])
def test_a_level_that_is_none_is_refused_before_anything_is_done(
    what: list[str], level: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "x.txt").touch()
    monkeypatch.setenv("RUNNER_PACK_LEVEL", level)
    assert build(what) == (2, f"RUNNER_PACK_LEVEL={level}: not a level of zstd, 1 to 22")
