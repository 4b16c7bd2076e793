"""A plan as programs read it: one list of diagnoses, with what works of their remedies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runners.core import diagnosis
from runners.core.command_line import CommandLine, Given
from runners.core.progress import Listener
from runners.launching import gather, plan_document

from ..programs import environment

HERE: dict[str, Any] = {"runtime": "none", "scheduler": "local", "image": "env"}


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    """A folder with a Python environment in place of an image, and a trainer."""
    environment(here / "env")
    (here / "train.py").touch()


def document(**flags: Any) -> dict[str, Any]:
    settings = {**HERE, **flags}
    given = tuple(Given(*flag) for flag in settings.items())
    typed = CommandLine("plan", given, trainer="train.py", cwd=os.getcwd())
    made = gather.plan("train.py", (), settings, True, Listener())
    return plan_document.document(made, typed)


def test_a_plan_that_works_has_its_choices_and_its_script() -> None:
    made = document()
    assert (made["version"], made["works"], made["remedies"]) == (diagnosis.VERSION, True, [])
    assert {"controller", "runtime"} <= {choice["id"] for choice in made["choices"]}
    assert made["script"].startswith("#!")
    assert json.dumps(made["variables"])


def test_a_refusal_keeps_of_its_remedies_those_that_work() -> None:
    made = document(nodes=2)
    assert not made["works"]
    (refusal,) = [found for found in made["diagnoses"] if found["severity"] == "failure"]
    assert refusal["id"] == "one-machine"
    assert [remedy["text"] for remedy in refusal["remedies"]] == [
        remedy["text"] for remedy in made["remedies"]
    ]
