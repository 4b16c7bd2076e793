"""A training as a step of a pipeline: the rules for Snakemake and the ReFrame test of the page."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import documents

from .conftest import CHECKOUT, Login

pytestmark = pytest.mark.slow
PAGE = documents.ROOT / "docs" / "guides" / "pipelines.md"
MAKE = "python3 -m venv tools && tools/bin/pip install --quiet snakemake ReFrame-HPC"


@pytest.fixture
def folder(login: Login) -> Login:
    """A folder with the page's files, and with both tools in `tools/bin`."""
    for block in documents.blocks(PAGE):
        if "file" in block.marks:
            login.write(block.marks["file"], block.text)
    toolbox = [sys.executable, "-m", "tests.cluster", "toolbox", "--"]
    subprocess.run(
        [*toolbox, "sh", "-ec", f"cd {login.folder}; {MAKE}"], cwd=CHECKOUT, check=True, timeout=600
    )
    login.sh("mkdir bin; ln -s ../tools/bin/snakemake ../tools/bin/reframe bin/")
    return login


def test_the_pages_pipelines_train_and_fail(folder: Login) -> None:
    own = {"PATH": f"{folder.folder}/bin:/opt/runner/bin:/usr/bin:/bin"}
    done = folder.run("snakemake", "--cores", "2", env=own)
    assert done.returncode == 0, done.stdout + done.stderr
    best = json.loads(folder.sh("cat best.json"))
    assert (best["world_size"], best["epochs"]) == (2, 2)
    assert sorted(folder.runs()) == ["rate-0.02-1", "rate-0.05-1"]

    folder.sh("rm -r trained best.json; sed -i 's/--epochs 2/--epochs none/' Snakefile")
    done = folder.run("snakemake", "--cores", "2", env=own)
    assert done.returncode != 0
    assert folder.sh("ls trained/*.json 2>/dev/null || true") == "", "nothing half-made stays"
    assert "runner: " in folder.sh("cat trained/0.05.log"), "the reason is in the rule's log"

    done = folder.run("reframe", "-c", "training.py", "-r", "--performance-report", env=own)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 1/1 test case(s) from 1 check(s) (0 failure(s)" in done.stdout
