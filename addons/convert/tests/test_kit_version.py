"""The add-on and the kit: which version it needs, which rooms it says that it uses."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import runner_convert
from runners.core import version
from tests.documents import ROOT
from tests.unit.in_process import runner

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[1]


def test_it_needs_the_kit_that_it_comes_with() -> None:
    assert version.__version__.startswith(f"{runner_convert.NEEDS}.")
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert project["version"] == version.__version__
    needed = set(project["dependencies"])
    assert not [name for name in needed if name.startswith("horovod")]
    files = (ROOT / "requirements.txt", ROOT / "tests/requirements.txt")
    assert needed <= {line for file in files for line in file.read_text().splitlines()}


def test_another_kit_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(version, "__version__", "0.2.0")
    for name in [name for name in sys.modules if name.partition(".")[0] == "runner_convert"]:
        monkeypatch.delitem(sys.modules, name)
    done = runner(monkeypatch, capsys, "convert", str(FOLDER / "README.md"))
    assert done.returncode == 1
    assert "the add-on horovod-runner-convert 0.1.0, which has the command" in done.stderr
    assert "ImportError: it is made for horovod-runner 0.1, and here is 0.2.0\n" in done.stderr
    assert done.stderr.endswith(f"  try: {sys.executable} -m pip install . ./addons/convert\n")


def test_its_readme_lists_the_rooms_that_import_linter_allows() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contract = next(c for c in linter["contracts"] if "README" in c["name"])
    rooms = {row.partition(" -> ")[2].removesuffix(".**") for row in contract["ignore_imports"]}
    allowed = rooms - {"runners.core.version"}  # named once more for the package itself
    text = (FOLDER / "README.md").read_text().partition("## What it uses of the kit")[2]
    assert set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)) == allowed
