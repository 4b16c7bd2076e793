"""Options of `runner build` that contradict each other are refused before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli.exit_codes import of_error
from runners.cli.images.build import build_command
from runners.core.errors import RunnerError


def build(words: list[str]) -> tuple[int, str]:
    done = CliRunner().invoke(build_command, words)
    if isinstance(done.exception, RunnerError):
        return of_error(done.exception), str(done.exception)
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
        (["wheel", "cpu", "--horovod"], "name the image whose Horovod it is"),
        (["--from", "base.sif", "--horovod", "--build-arg", "a=b"], "--build-arg is for --def"),
        (["--from", "base.sif", "-r", "x.txt", "--frozen"], "--frozen is for the packaged images"),
        (["--from", "base.sif", "-r", "x.txt", "--build-arg", "a=b"], "--build-arg is for --def"),
        (["--from", "base.sif", "--def", "x.txt", "--index-url", "u"], "is for --requirements"),
        (["x.def", "--wheelhouse", "."], "--wheelhouse is for the packaged images"),
        (["x.def", "--base", "debian"], "--base is for the packaged images"),
        (["cpu", "--build-arg", "a=b"], "--build-arg is only for your own definition file"),
        (["x.def", "--build-arg", "ab"], "--build-arg ab: not NAME=VALUE"),
        (["wheel", "cpu", "--oci", "x.tar"], "name the image whose Horovod it is"),
        (["env", "new", "--oci", "x.tar"], "--oci is for images, not for an environment"),
        (["tpu"], "no image named 'tpu'"),
    ],
)
def test_what_would_not_be_heard_is_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("Bootstrap: docker\nFrom: x\n")
    code, said = build(words)
    assert (code, message in said) == (2, True), said
