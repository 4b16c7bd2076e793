"""Each source of a plan is asked once: the site, the image, the data, the site for the job."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runners.core.errors import RunnerError
from runners.core.progress import Listener
from runners.data import find_data
from runners.images import local_image
from runners.launching import default_trainer, gather, job_site
from runners.settings import trainers
from runners.sites import probe

from ..programs import program

SOURCES = ((probe, "probe"), (local_image, "on_disk"), (find_data, "all_of"), (job_site, "find"))
ONCE = {"probe": 1, "on_disk": 1, "all_of": 1, "find": 1}


@pytest.fixture(autouse=True)
def asked(here: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each source is asked, on a machine with Apptainer and a dataset."""
    program(here / "bin/apptainer", "echo apptainer version 1.4.5")
    monkeypatch.setenv("PATH", f"{here}/bin:/usr/bin:/bin")
    (here / "data").mkdir()
    (here / "data/file").touch()
    times: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def count(*words: Any, **named: Any) -> Any:
            times[name] += 1
            return function(*words, **named)

        monkeypatch.setattr(module, name, count)

    for module, name in SOURCES:
        counted(module, name)
    return times


@pytest.mark.parametrize("trainer", ["torch_mnist", ""])
def test_each_source_is_asked_once(trainer: str, asked: Counter[str]) -> None:
    flags = {"image": "horovod_cpu.sif", "data": ["data"]}
    assert not gather.plan(trainer, (), flags, True, Listener()).refusals
    assert asked == ONCE


@pytest.mark.parametrize("trainer", ["torch_mnist", ""])
def test_each_is_asked_once_too_where_the_others_are_missing(
    trainer: str, asked: Counter[str]
) -> None:
    flags = {"image": "nope.sif", "data": ["nope"], "site": "nope"}
    with pytest.raises(RunnerError) as caught:
        gather.plan(trainer, (), flags, True, Listener())
    assert [fault.id for fault in caught.value.faults] == [
        *("site-unknown", "image-missing", "dataset-missing")
    ]
    assert asked == ONCE


def test_a_default_trainer_changes_nothing_that_its_image_depends_on() -> None:
    """The image, on which the trainer depends, is found without its preset."""
    for name in default_trainer.TRAINERS.values():
        trainer, preset = trainers.find(name, ())
        assert trainer.has_ranks
        assert preset is not None
        assert preset.values.keys() <= {"cpus-per-task", "time"}
