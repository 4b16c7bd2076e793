"""plan.json of a run: what was chosen for it, for `explain` and `compare` to read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .errors import SystemFault
from .files import read_json, write_json
from .job_record import JobPaths
from .plan import Plan

VERSION = 1  # of the form of the file


def as_data(made: Plan) -> dict[str, Any]:
    """Return the plan's choices, as they are written down."""
    return {"version": VERSION, "choices": [asdict(choice) for choice in made.choices]}


def write(paths: JobPaths, made: Plan) -> None:
    write_json(paths.plan, as_data(made), private=True)


def read(paths: JobPaths) -> dict[str, Any]:
    """Return the values of a run's choices by identifier, nothing where there is no such file.

    Raises SystemFault for a file that cannot be read, or has another form.
    """
    content = read_json(paths.plan)
    if content is None:
        return {}
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        raise SystemFault(
            f"{paths.plan} was written by another version of runner",
            f"its form is {version or 'older than 1'}, and this one reads {VERSION}",
        )
    return {choice["id"]: choice["value"] for choice in content["choices"]}
