"""What `runner explain` prints: what to do, who can, and what to tell the administrators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.contract.log_text import CONTROL
from runners.core import diagnosis

from ..explain.runs import made
from ..failures import leave, words

ECC = "AcceleratorError: CUDA error: uncorrectable ECC error encountered"
PARAMETERS = "RuntimeError: Expected to have finished reduction in the prior iteration"


def asked(folder: Path, error: str, *options: str) -> str:
    """Return what is printed of a run whose rank 0 on n0 failed with this error."""
    paths, job = made(folder, "")
    leave(paths, 0, 1.0, words(f"error: {error}"))
    job.save(paths)
    record = json.loads(paths.job.read_text())
    paths.job.write_text(json.dumps({**record, "state": "FAILED"}))
    done = CliRunner().invoke(cli, ["explain", str(paths.root), *options])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (
            ECC,
            (
                "fix:           Leave out the node",
                "runner launch --exclude n0",
                "fixed by:      nobody: the node is at fault",
                "tell:          A GPU of n0 reports a hardware fault",
                "certainty:     certain",
            ),
        ),
        (
            PARAMETERS,
            (
                "fix:           Give `DistributedDataParallel(model, find_unused_parameters=True)`",
                "fixed by:      the author of the trainer",
            ),
        ),
    ],
)
def test_people_read_who_can_fix_it(tmp_path: Path, error: str, lines: tuple[str, ...]) -> None:
    printed = asked(tmp_path, error)
    for line in lines:
        assert line in printed


def test_what_a_log_says_tells_the_terminal_nothing(tmp_path: Path) -> None:
    """It may be another user's: who looks at it has the title, and the clipboard, of his own."""
    printed = asked(tmp_path, "RuntimeError: \x1b[31mred \x1b]0;title\x07 \x9b2J")
    assert r"rank 0@n0: RuntimeError: red \x1b]0;title\x07 \x9b2J" in printed
    assert not CONTROL.search(printed)


def test_programs_read_the_same(tmp_path: Path) -> None:
    document = json.loads(asked(tmp_path, ECC, "--json"))
    assert document["version"] == diagnosis.VERSION
    (value,) = document["diagnoses"]
    assert (value["id"], value["severity"], value["fixed_by"]) == ("cuda-ecc", "failure", "nobody")
    assert " ".join(value) == (
        "id severity what evidence remedies certainty because job who rank host traceback steps "
        "fixed_by tell"
    )
    assert value["steps"] == ["Leave out the node"]
    assert value["tell"].startswith("A GPU of n0")
    assert "--exclude n0" in value["remedies"][0]["text"]
