"""Failures that look like another one: a sign that several have makes none of them certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.explain.explanation import Explanation
from runners.explain.judge import explain

from .test_errors import TRACEBACK
from .test_facts import FAILED, explained, made, planned

CONDA = (
    "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\n"
    "To initialize your shell, run\n\n    $ conda init <SHELL_NAME>\n"
)
FRAME = f'{TRACEBACK}\n  File "/w/train.py", line 1, in <module>\n'


def of_shapes(*lines: str) -> str:
    """Return the error of a state that does not fit, each line as NAME SAVED CURRENT."""
    size = "\tsize mismatch for {}: copying a param with shape torch.Size([{}]) from checkpoint, "
    size += "the shape in current model is torch.Size([{}])."
    told = "\n".join(size.format(*line.split()) for line in lines).replace("x", ", ")
    return f"RuntimeError: Error(s) in loading state_dict for Net:\n{told}"


def without_conda(folder: Path, module: str, runtime: str) -> Explanation:
    missing = f"{FRAME}ModuleNotFoundError: No module named '{module}'"
    paths, job = made(folder, f"{CONDA}\n{missing}")
    planned(paths, runtime)
    return explain(paths, job, FAILED)


def test_a_package_is_missing_where_conda_did_not_activate(tmp_path: Path) -> None:
    why = without_conda(tmp_path, "torch", "none")
    told = why.id, why.certainty.value, "`conda activate` failed" in why.what
    assert told == ("python-module-missing", "likely", True), why


@pytest.mark.parametrize(("module", "runtime"), [("utils", "none"), ("torch", "apptainer")])
def test_conda_is_not_to_blame_for_another_module(
    tmp_path: Path, module: str, runtime: str
) -> None:
    why = without_conda(tmp_path, module, runtime)
    assert (why.id, "conda" in f"{why.what} {why.fix}") == ("python-module-missing", False), why


@pytest.mark.parametrize(
    ("one", "two", "name", "sure"),
    [
        ("l.weight 2x32 1", "m.weight 2x32 1", "checkpoint-into-size-1", "likely"),
        ("net.1.weight 64x32 1", "net.2.weight 10x64 64x32", "checkpoint-shapes", "certain"),
        ("l.weight 2x32 0", "m.weight 2x32 0", "checkpoint-into-sharded", "certain"),
    ],
)
def test_a_weight_of_size_1_is_a_shard_only_beside_no_other(
    tmp_path: Path, one: str, two: str, name: str, sure: str
) -> None:
    why = explained(tmp_path, of_shapes(one, two))
    assert (why.id, why.certainty.value) == (name, sure), why


@pytest.mark.parametrize(
    "head", ["Exception ignored in: <function f>", "Exception in thread Thread-1 (send):"]
)
def test_another_error_after_it_tells_nothing_of_the_home(tmp_path: Path, head: str) -> None:
    home = "/home/u/.local/lib/python3.10/site-packages/wandb/x.py"
    other = f'{head}\n{TRACEBACK}\n  File "{home}", line 9, in f\nTypeError: x'
    why = explained(tmp_path, f"{FRAME}ModuleNotFoundError: No module named 'mymod'\n{other}")
    assert why.id == "python-module-missing", why


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("numactl: execution of `./train.py': Permission denied", "program-not-executable"),
        ("numactl: execution of `python': No such file or directory", "command-missing"),
        ("libnuma: Warning: node argument 4 is out of range", "slurm-memory-bind"),
        ("numactl: unrecognized option '--membnd=0'", "unknown"),
        ("numactl: This system does not support NUMA policy", "unknown"),
    ],
)
def test_numactl_does_not_fail_by_nodes_alone(tmp_path: Path, line: str, name: str) -> None:
    assert explained(tmp_path, line).id == name


@pytest.mark.parametrize(
    ("frame", "code", "name"),
    [
        ('/w/t.py", line 3, in clean', "os.remove(args.old)", "race-delete"),
        (
            '/usr/lib/python3.12/shutil.py", line 7, in rmtree',
            "orig_st = os.lstat(p)",
            "race-delete",
        ),
        ('/usr/lib/python3.12/pathlib.py", line 7, in unlink', "os.unlink(self)", "race-delete"),
        ('/w/t.py", line 3, in remove', "with open(path) as file:", "file-missing"),
    ],
)
def test_what_is_to_be_removed_is_gone_or_never_was(
    tmp_path: Path, frame: str, code: str, name: str
) -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/u/cache'"
    why = explained(tmp_path, f'{TRACEBACK}\n  File "{frame}\n    {code}\n{error}')
    assert why.id == name, why
    assert (name == "file-missing") or "or was never there" in why.what, why


def test_what_slurm_could_not_send_at_the_end_is_no_server_of_the_job(tmp_path: Path) -> None:
    line = "slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused"
    assert explained(tmp_path, line).id == "unknown"


def test_an_option_that_hydra_does_not_know_may_be_misspelt(tmp_path: Path) -> None:
    line = "[mpiexec@n1] match_arg (lib/hydra_arg.c:91): unrecognized argument ppnn"
    why = explained(tmp_path, line)
    assert (why.id, "misspelt" in why.what) == ("hydra-unknown-option", True), why
