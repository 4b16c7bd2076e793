"""Kinds of scripts of which `runner convert` was once silently wrong: tables of their variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner_convert.batch_scripts import script_report
from runner_convert.batch_scripts.programs import PLACE
from runners.settings.config_files import read_toml

from .read_script import line, read

KINDS: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("kinds.toml"))


def faults(kind: str, case: dict[str, Any]) -> list[str]:
    """Return what the output lacks, or has though it should not."""
    script = "#!/bin/bash\n" + case["text"].replace("$HEAD", KINDS[kind]["head"].strip()) + "\n"
    said = "\n".join(script_report.as_text(read(script)))
    missing = [f"lacks {text!r}" for text in case["right"] if text not in said]
    wrong = [f"has {text!r}" for text in case["wrong"] if text in said]
    return [f"{case['name']}: {', '.join([*missing, *wrong])}\n{said}"] if missing + wrong else []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind(kind: str) -> None:
    found = [fault for case in KINDS[kind]["cases"] for fault in faults(kind, case)]
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("name", [*sorted(PLACE)])
def test_what_runner_sets_is_left_out_with_and_without_a_prefix(name: str) -> None:
    for prefix in ("", "APPTAINERENV_", "SINGULARITYENV_"):
        text = f"#SBATCH -n 2\nexport {prefix}{name}=1\nsrun apptainer exec a.sif python t.py\n"
        assert line(text) == "--ntasks 2 --image a.sif t.py"
