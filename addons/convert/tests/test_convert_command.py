"""`runner convert`: what a file is taken for, what is said of it, and the next command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from runner_convert.command import convert_command
from runners.core.errors import RunnerError
from tests import addons
from tests.documents import ROOT
from tests.unit import sentences
from tests.unit.in_process import runner

DOCKERFILE = "FROM debian:12-slim\nEXPOSE 80\n"
DEFINITION = "# mine\nBootStrap: docker\nFrom: debian:12-slim\n%help\n  x\n%post\n  true\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dockerfile_becomes_a_definition_and_the_next_command_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "Dockerfile").write_text(DOCKERFILE)
    done = runner(monkeypatch, capsys, "convert", "Dockerfile", "-o", "a b.def")
    assert done.returncode == 0
    assert (here / "a b.def").read_text().startswith("Bootstrap: docker\n")
    first, lost, last = done.stderr.splitlines()
    assert (first, lost[:24]) == ("not converted, or to be looked at:", "  line 2: EXPOSE 80: a c")
    assert last == "wrote a b.def; next: runner build 'a b.def'"
    shown = runner(monkeypatch, capsys, "convert", "Dockerfile")
    assert shown.stdout == (here / "a b.def").read_text()
    assert shown.stderr.splitlines()[-1].endswith("-o, and build that: runner build my.def")


def test_a_file_that_the_shell_writes_is_the_one_to_build(here: Path) -> None:
    """In processes of their own, whose stdout is a file."""
    (here / "Dockerfile").write_text(f"{DOCKERFILE}COPY . /opt\n")
    (here / "first.def").write_text(DEFINITION)
    program = [sys.executable, "-c", "from runners.cli import main; main()", "convert"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *addons.paths()])}
    for source, target, following in (
        ("Dockerfile", "my own.def", "runner build 'my own.def'"),
        ("first.def", "made", "podman build -t NAME -f made ."),
    ):
        with open(target, "w") as file:
            done = subprocess.run(
                [*program, source], stdout=file, stderr=subprocess.PIPE, text=True, env=environment
            )
        assert done.stderr.splitlines()[-1] == f"next: {following}"
    assert "my own.def" in (here / "my own.def").read_text()  # as COPY leaves it out


def test_a_definition_becomes_a_dockerfile(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "my.def").write_text(DEFINITION)
    done = runner(monkeypatch, capsys, "convert", "my.def", "-o", "Dockerfile")
    assert done.returncode == 0, done.stderr
    assert (here / "Dockerfile").read_text().startswith("FROM debian:12-slim AS post\n")
    assert "line 4: %help: a Docker image has no help" in done.stderr
    assert done.stderr.endswith("wrote Dockerfile; next: podman build -t NAME -f Dockerfile .\n")
    shown = runner(monkeypatch, capsys, "convert", "my.def")
    assert shown.stdout == (here / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("name", "text", "option", "id"),
    [
        ("my.def", DEFINITION, "--target=x", "option-of-other-kind"),
        ("my.def", DEFINITION, "--check", "option-of-other-kind"),
        ("Dockerfile", DOCKERFILE, "--json", "option-of-other-kind"),
        ("my.def", DEFINITION + "%setup\n  true\n", "-oDockerfile", "definition-not-convertible"),
        ("my.def", "Bootstrap docker\n", "-oDockerfile", "header-malformed"),
        ("my.def", DEFINITION + "%files\n  a\0 /b\n", "-oDockerfile", "input-not-text"),
        ("Dockerfile", DOCKERFILE + "COPY a\0 /b\n", "-ox.def", "input-not-text"),
    ],
)
def test_what_cannot_be_converted(here: Path, name: str, text: str, option: str, id: str) -> None:
    (here / name).write_text(text)
    done = CliRunner().invoke(convert_command, [name, option])
    assert isinstance(done.exception, RunnerError)
    assert sentences.told(done.exception)[0] == id
    assert done.output == ""
    assert not (here / "Dockerfile").exists() or name == "Dockerfile"
