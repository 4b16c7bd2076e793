"""`runner convert` with batch scripts: kinds, outputs, exit codes and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from runner_convert.batch_scripts.file_kind import FileKind, kind_of
from runner_convert.command import convert_command
from runners.core import diagnosis
from runners.core.errors import UsageError
from tests import addons, documents
from tests.unit import sentences
from tests.unit.in_process import Done, runner

JOB = "#!/bin/bash\n#SBATCH --nodes=2\nsrun apptainer exec image.sif python t.py | tee log\n"
GOOD = "#!/bin/bash\n#SBATCH --nodes=2\nsrun apptainer exec image.sif python t.py\n"
LINE = "runner launch --nodes 2 --image image.sif t.py"
# A Python without the parser.
WITHOUT = "import sys; sys.modules['tree_sitter'] = None; from runners.cli import main; main()"


Convert = Callable[..., Done]


@pytest.fixture
def convert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Convert:
    """Run the command on a text in a folder of its own, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *words: str, name: str = "job.sh") -> Done:
        Path(name).write_bytes(text.encode())
        return runner(monkeypatch, capsys, "convert", name, *words)

    return run


def test_the_line_comes_first(convert: Convert) -> None:
    done = convert(JOB)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        LINE,
        "",
        "left out, because runner does it:",
        "  line 3: tee: runner keeps the log",
        "",
        "findings:",
        "  line 3: pipe-exit-code: tee hides the trainer's exit code",
        "      right: set -o pipefail above it",
    ]


def test_check_ends_with_1_where_something_is_wrong(convert: Convert) -> None:
    done = convert(JOB, "--check")
    assert done.returncode == 1
    assert done.stdout.startswith("line 3: pipe-exit-code: ")
    done = convert(GOOD, "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_json_is_for_programs(convert: Convert) -> None:
    told = json.loads(convert(JOB, "--json").stdout)
    assert told["launches"] == [{"line": 3, "command": LINE, "complete": True}]
    finding = {
        "id": "pipe-exit-code",
        "severity": "warning",
        "what": "tee hides the trainer's exit code",
        "evidence": [],
        "remedies": [{"kind": "advice", "text": "set -o pipefail above it"}],
        "certainty": "certain",
        "line": 3,
        "page": "docs/reference/batch-findings.md#pipe-exit-code",
    }
    assert (told["version"], told["diagnoses"][-1]) == (diagnosis.VERSION, finding)
    done = convert(JOB, "--check", "--json")
    assert (done.returncode, json.loads(done.stdout)["diagnoses"]) == (1, [finding])


def test_nothing_of_the_script_is_executed(tmp_path: Path, convert: Convert) -> None:
    marks = "touch ran\nX=$(touch ran)\nY=`touch ran`\nfor f in $(touch ran); do touch ran; done\n"
    assert convert(JOB + marks + "eval touch ran\n").returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "name", "batch"),
    [
        (GOOD, "x", True),
        ("#PBS -q a\n", "x", True),
        ("srun a\n", "job.slurm", True),
        ("FROM debian:12\nRUN true\n", "Dockerfile", False),
        ("# syntax=docker/dockerfile:1\nARG A=1\nFROM a\n", "x", False),
        ("FROM a\nRUN <<EOF\n#!/bin/sh\n#SBATCH -n1\nEOF\n", "x", False),
        ("<html>\n", "page.html", False),
    ],
)
def test_the_kind_is_told_by_the_content(text: str, name: str, batch: bool) -> None:
    assert (kind_of(text, name, ()) is FileKind.BATCH) == batch


def test_kind_says_it(convert: Convert) -> None:
    done = convert("srun apptainer exec i.sif python t.py\n", "--kind", "batch", name="x")
    assert done.stdout.startswith("runner launch --image i.sif t.py\n")
    assert "no directives: add what the submission asks for" in done.stdout
    done = convert(GOOD, "--kind", "dockerfile")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("#!/usr/bin/env python3\nprint()\n", "script-of-other-shell"),
        ("#!/bin/tcsh\nsetenv A 1\n", "script-of-other-shell"),
        ("#!/bin/bash\n#BSUB -n 4\nmpirun a\n", "script-of-other-scheduler"),
        ("#!/bin/bash\n#FLUX: -N 2\nsrun a\n", "script-of-other-scheduler"),
        ("#!/bin/bash\n\0\n", "input-not-text"),
        (")))(((\n", "script-not-shell"),
    ],
)
def test_what_is_no_batch_script(
    text: str, id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text(text)
    done = CliRunner().invoke(convert_command, ["job.sh"])
    assert isinstance(done.exception, UsageError)
    assert sentences.told(done.exception)[0] == id
    assert done.output == ""


def test_options_of_the_other_kind_are_refused(tmp_path: Path, convert: Convert) -> None:
    assert convert(GOOD, "-o", "x.def").returncode == 2
    assert not (tmp_path / "x.def").exists()
    assert convert(GOOD, "--target", "last").returncode == 2
    for option in ("--check", "--json"):
        assert convert("FROM a\n", option, name="Dockerfile").returncode == 2


def test_windows_line_ends_are_read_and_told(convert: Convert) -> None:
    done = convert(GOOD.replace("\n", "\r\n"))
    assert done.stdout.splitlines()[0] == LINE
    assert "line 1: windows-line-ends: " in done.stdout


def test_a_broken_line_is_told(convert: Convert) -> None:
    done = convert(GOOD + "if true; then\n  echo 'a\n")
    assert "the shell's grammar does not fit from here on" in done.stdout


def test_many_levels_end_with_a_message(convert: Convert) -> None:
    done = convert(GOOD + "(" * 5000 + "true" + ")" * 5000 + "\n")
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


def test_without_the_parser(tmp_path: Path) -> None:
    """In processes of their own: this one has imported it."""

    def convert(text: str, name: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / name).write_text(text)
        command = [sys.executable, "-c", WITHOUT, "convert", name]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(documents.ROOT), *addons.paths()])}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    done = convert(GOOD, "job.sh")
    assert done.returncode == 80
    assert "batch scripts are read with tree-sitter" in done.stderr
    assert "-m pip install" in done.stderr
    done = convert("FROM debian:12\n", "Dockerfile")
    assert done.returncode == 0, done.stderr
