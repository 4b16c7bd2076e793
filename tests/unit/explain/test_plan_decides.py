"""What was decided is read from the plan; from the launch where an older runner's plan lacks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.failure_kinds import FailureKind
from runners.core.command_line import CommandLine, Given
from runners.core.model import BindMount
from runners.core.trainer import Trainer
from runners.explain.judge import explain
from runners.injob.problems import Problem

from ..failures import leave, words
from .runs import FAILED, OWN, made, planned

ADDED = ("command", "image", "data", "binds", "env", "sbatch_args")  # to form 5, one by one
TRACEBACK = "Traceback (most recent call last):"
HOME = "/home/u/.local/lib/python3.10/site-packages/pkg/__init__.py"
LEAK = "ModuleNotFoundError: No module named 'packaging'"
KERAS = "AttributeError: 'Sequential' object has no attribute 'fit_generator'"
STORE = "DistStoreError: Timed out after 7 seconds waiting for clients. 1/2 clients joined."
NO_JSON = "JSONDecodeError: Expecting property name: line 1 column 2 (char 1)"
RESOLVER = "/x/cluster_resolver/tfconfig_cluster_resolver.py"
GLIBC = "ImportError: /lib64/libc.so.6: version `GLIBC_2.38' not found (required by /e/x.so)"
NO_TARGET = (
    "FATAL:   container creation failed: mount /dev/mine->/dev/mine error: while mounting "
    "/dev/mine: destination /dev/mine doesn't exist in container\n"
)
NO_STEP = "srun: error: Unable to create step for job 42: Invalid argument\n"
UNSET = "unset APPTAINER_BIND APPTAINER_BINDPATH SINGULARITY_BIND SINGULARITY_BINDPATH && "
TORCHRUN = ("--nproc-per-node=2", "/w/t.py", "--lr", "1")
OWN_SIZE = Problem(
    FailureKind.WORLD_SIZE, "m", {"tasks": 4, "world": 2, "framework": "torch.distributed"}
)


def of_module(error: str, file: str) -> str:
    return f'0@n0 | {TRACEBACK}\n0@n0 |   File "{file}", line 3, in <module>\n0@n0 | {error}\n'


# The log and the record; what was asked for, and the same as typed; the fix, and that without it
CASES: Mapping[str, tuple[str, Problem | None, dict[str, Any], dict[str, str], str, str]] = {
    "binds of a target": (
        NO_TARGET,
        None,
        {"binds": (BindMount("/w/data", "/dev/mine", True),)},
        {"bind": "/w/data:/dev/mine:ro"},
        "--bind /w/data:/mnt/mine:ro, leave out --bind",
        f"{UNSET}--apptainer-arg=--no-mount=bind-paths",
    ),
    "binds of a library": (
        "",
        words(GLIBC),
        {"binds": (BindMount("/e", "/e"),)},
        {"bind": "/e"},
        "leave out --bind",
        "apptainer exec a.sif ldd --version",
    ),
    "PYTHONPATH": (
        of_module(LEAK, HOME),
        words(LEAK),
        {"env": (("PYTHONPATH", "/x"),)},
        {"env": "PYTHONPATH=/x"},
        "--env PYTHONPATH=",
        "--apptainer-arg=--no-home",
    ),
    "MASTER_ADDR": (
        "",
        words(STORE),
        {"env": (("MASTER_ADDR", "n9"),)},
        {"env": "MASTER_ADDR=n9"},
        "leave out --env",
        "runner logs --rank 0 42",
    ),
    "TF_CONFIG": (
        of_module(NO_JSON, RESOLVER),
        words(NO_JSON),
        {"env": (("TF_CONFIG", "{"),)},
        {"env": "TF_CONFIG={"},
        "--tf-config, leave out --env",
        "--tf-config",
    ),
    "TF_USE_LEGACY_KERAS": (
        "",
        words(KERAS),
        {"env": (("TF_USE_LEGACY_KERAS", "1"),)},
        {"env": "TF_USE_LEGACY_KERAS=1"},
        "A script of `tf.keras` takes Keras 2 by TF_USE_LEGACY_KERAS=1\n"
        "One of `import keras` takes it by `import tf_keras as keras`: the variable changes "
        "nothing there",
        "--env TF_USE_LEGACY_KERAS=1",
    ),
    "sbatch_args": (
        NO_STEP,
        None,
        {"sbatch_args": ("--hint=x",)},
        {"sbatch-arg": "--hint=x"},
        "leave out --sbatch-arg",
        "scontrol show job 42",
    ),
    "image": (
        "",
        Problem(FailureKind.IMAGE_CHANGED, "m", {"what": "image"}),
        {"settings": (Given("image", "mine"),)},
        {"image": "mine"},
        "runner verify mine && the same command once more",
        "runner verify a.sif && the same command once more",
    ),
    "command": (
        "",
        OWN_SIZE,
        {"trainer": Trainer("torchrun", None, None, TORCHRUN, program="torchrun")},
        {"trainer": "torchrun"},
        "--launcher torchrun",
        "init_process_group() without a size or a store: runner sets the variables",
    ),
}


@pytest.mark.parametrize(
    ("log", "problem", "requested", "typed", "fix", "without"), CASES.values(), ids=CASES
)
def test_a_fix_rests_on_the_plan(
    tmp_path: Path,
    log: str,
    problem: Problem | None,
    requested: dict[str, Any],
    typed: dict[str, str],
    fix: str,
    without: str,
) -> None:
    paths, job = made(tmp_path, log)
    if problem:
        leave(paths, 0, 1.0, problem)
    trainer = typed.get("trainer", "")
    settings = tuple(Given(name, value) for name, value in typed.items() if name != "trainer")
    launch = CommandLine(settings=settings, trainer=trainer, args=TORCHRUN if trainer else ())
    otherwise = replace(job, typed=CommandLine())
    launched = replace(job, typed=launch)

    def told(of_typed: bool) -> str:
        return str(explain(paths, launched if of_typed else otherwise, FAILED).fix)

    requested = dict(requested)
    planned(paths, trainer=requested.pop("trainer", OWN), request=requested)
    assert told(False) == fix, "the plan has it, though nobody typed it"
    planned(paths)
    assert told(True) == without, "the plan does not have it, whatever was typed"
    older = json.loads(paths.plan.read_text())
    paths.plan.write_text(json.dumps({k: v for k, v in older.items() if k not in ADDED}))
    assert told(True) == fix, "an older runner's plan does not tell"
    paths.plan.unlink()
    assert told(True) == fix, "there is no plan"


def test_values_of_variables_that_stay_are_those_that_were_typed(tmp_path: Path) -> None:
    """The plan has the names alone."""
    paths, job = made(tmp_path, "", (0, 1.0, STORE))
    given = (("A", "1"), ("MASTER_ADDR", "n9"))
    planned(paths, request={"env": given})
    settings = tuple(Given("env", "=".join(pair)) for pair in given)
    fix = explain(paths, replace(job, typed=CommandLine(settings=settings)), FAILED).fix
    assert str(fix) == "--env A=1, leave out --env"
