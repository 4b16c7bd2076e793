"""Which launches are accepted, and what is told of them before they are submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.core.command_line import CommandLine, Given
from runners.core.errors import NotFound, Refused
from runners.core.plan import Plan
from runners.core.progress import Listener
from runners.core.remedy import change
from runners.launching import submit, working_remedies
from runners.launching.submit import LaunchRequest
from runners.settings import suggest
from runners.settings.sweep import SweepRequest, SweepRun

from .. import sentences
from ..programs import environment

HERE: dict[str, Any] = {"runtime": "none", "scheduler": "local", "image": "env"}


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    """A folder with a Python environment in place of an image."""
    environment(here / "env")
    return here


def accepted(flags: dict[str, Any], trainer: str = "train.py", **more: Any) -> Plan:
    typed = CommandLine(settings=tuple(Given(*flag) for flag in flags.items()), trainer=trainer)
    return submit.accepted(LaunchRequest(trainer, (), flags, typed, **more), Listener())


@pytest.mark.parametrize(
    ("trainer", "source", "several", "warned"),
    [
        ("train.py", "import numpy\n", True, True),
        ("train.py", 'print(os.environ["OUTPUT_DIR"])\n', True, False),
        ("train.py", "import numpy\n", False, False),
        ("train.py", "from recipes import options\n", True, False),
        ("./train.sh", "#!/bin/sh\n", True, False),
    ],
)
def test_runs_of_a_script_that_share_files_are_warned_of(
    trainer: str, source: str, several: bool, warned: bool
) -> None:
    Path(trainer).write_text(source)
    Path(trainer).chmod(0o755)
    sweep = SweepRequest([SweepRun(0), SweepRun(1)], None) if several else None
    told = sentences.ids(accepted(HERE, trainer, sweep=sweep).warnings)
    assert ("one-working-folder" in told) is warned


def test_remedies_of_a_refusal_were_tried(folder: Path) -> None:
    (folder / "train.py").touch()
    with pytest.raises(Refused) as refused:
        accepted({**HERE, "nodes": 2, "launcher": "srun"})
    assert refused.value.remedies == (change(nodes=1, ntasks=2, launcher="local"),)


def test_what_cannot_work_is_accepted_by_force_alone(folder: Path) -> None:
    (folder / "train.py").touch()
    assert accepted({**HERE, "nodes": 2}, force=True).refusals
    with pytest.raises(NotFound):
        accepted(HERE, "gone.py", force=True)


@pytest.mark.parametrize(
    ("scheduler", "by_option", "by_program", "waits"),
    [
        ("local", False, False, True),
        ("local", False, True, False),
        ("local", True, True, True),
        ("pbs", False, False, False),
        ("pbs", True, False, True),
    ],
)
def test_a_launch_waits_where_its_job_runs_here_unless_a_program_launches_it(
    scheduler: str, by_option: bool, by_program: bool, waits: bool
) -> None:
    Path("train.py").touch()
    made = accepted({**HERE, "scheduler": scheduler}, force=True)
    assert submit.waits(made, by_option, by_program) is waits


def test_one_job_and_the_runs_of_a_sweep_get_folders_of_their_own(folder: Path) -> None:
    (folder / "train.py").touch()
    made, typed = accepted(HERE), CommandLine("launch")
    several = SweepRequest([SweepRun(3), SweepRun(5)], None)
    drafts = [*submit.drafts_of(made, typed), *submit.drafts_of(made, typed, several)]
    assert [draft.paths.root.name for draft in drafts] == ["train-1", "train-1_3", "train-1_5"]
    assert not (folder / "runs").exists()


def test_what_was_forced_has_the_commands_that_work_instead(folder: Path) -> None:
    (folder / "train.py").touch()
    flags = {**HERE, "nodes": 2, "launcher": "srun"}
    typed = CommandLine(settings=tuple(Given(*flag) for flag in flags.items()), trainer="train.py")
    error = working_remedies.refused(accepted(flags, force=True), typed)
    (remedy,) = suggest.resolved(error.remedies, typed)
    assert str(remedy).startswith("runner launch ")
    assert {"--nodes 1", "--launcher local"} <= set(
        map(" ".join, zip(str(remedy).split(), str(remedy).split()[1:]))
    )


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("import torch\n", True),
        ("from torch import nn\n", True),
        ("import tensorflow as tf\n", True),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", False),
        ("import torchlight\n", False),
    ],
)
def test_a_script_that_imports_what_its_environment_lacks_is_refused(
    source: str, refused: bool
) -> None:
    Path("train.py").write_text(source)
    made = accepted(HERE, force=True)
    assert ("package-missing" in sentences.ids(made.refusals)) is refused


def test_modules_may_bring_what_an_environment_lacks() -> None:
    Path("train.py").write_text("import torch\n")
    assert not accepted({**HERE, "env": ["PYTHONPATH=/apps/torch"]}, force=True).refusals
