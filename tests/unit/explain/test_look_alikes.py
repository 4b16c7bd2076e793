"""Failures that look like another one: a sign that several have makes none of them certain."""

from __future__ import annotations

from pathlib import Path

from runners.explain.explanation import Explanation
from runners.explain.judge import explain

from ..tables import each
from .test_errors import TRACEBACK
from .test_facts import FAILED, explained, made, planned

CONDA = (
    "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\n"
    "To initialize your shell, run\n\n    $ conda init <SHELL_NAME>\n"
)
FRAME = f'{TRACEBACK}\n  File "/w/train.py", line 1, in <module>\n'


def without_conda(folder: Path, module: str, runtime: str) -> Explanation:
    missing = f"{FRAME}ModuleNotFoundError: No module named '{module}'"
    paths, job = made(folder, f"{CONDA}\n{missing}")
    planned(paths, runtime)
    return explain(paths, job, FAILED)


def test_a_package_is_missing_where_conda_did_not_activate(tmp_path: Path) -> None:
    why = without_conda(tmp_path, "torch", "none")
    told = why.name, why.certainty.value, "`conda activate` failed" in why.cause
    assert told == ("python-module-missing", "likely", True), why


@each(("utils", "none"), ("torch", "apptainer"))
def test_conda_is_not_to_blame_for_another_module(
    tmp_path: Path, module: str, runtime: str
) -> None:
    why = without_conda(tmp_path, module, runtime)
    assert (why.name, "conda" in f"{why.cause} {why.fix}") == ("python-module-missing", False), why


@each("Exception ignored in: <function f>", "Exception in thread Thread-1 (send):")
def test_another_error_after_it_tells_nothing_of_the_home(tmp_path: Path, head: str) -> None:
    home = "/home/u/.local/lib/python3.10/site-packages/wandb/x.py"
    other = f'{head}\n{TRACEBACK}\n  File "{home}", line 9, in f\nTypeError: x'
    why = explained(tmp_path, f"{FRAME}ModuleNotFoundError: No module named 'mymod'\n{other}")
    assert why.name == "python-module-missing", why
