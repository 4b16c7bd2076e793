"""Kinds of Dockerfiles of which `runner convert` was once silently wrong: tables of variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner_convert.dockerfile.convert import convert
from runners.settings.config_files import read_toml

KINDS: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("dockerfile_kinds.toml"))
BESIDE = ("my.sif", "other.sif", "images/old.sif", "src/train.py", "requirements.txt")


def faults(folder: Path, kind: str, case: dict[str, Any]) -> list[str]:
    """Return what definition and notes lack, or have though they should not."""
    for name in BESIDE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    text = case["text"].replace("$HEAD", KINDS[kind]["head"])
    made = convert(folder / "Dockerfile", text + "\n", "", "my.def")
    said = "\n".join([made.text, *map(str, made.notes)])
    missing = [f"lacks {text!r}" for text in case["right"] if text not in said]
    wrong = [f"has {text!r}" for text in case["wrong"] if text in said]
    return [f"{case['name']}: {', '.join([*missing, *wrong])}\n{said}"] if missing + wrong else []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind(tmp_path: Path, kind: str) -> None:
    found = [fault for case in KINDS[kind]["cases"] for fault in faults(tmp_path, kind, case)]
    assert not found, "\n\n".join(found)
