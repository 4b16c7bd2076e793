"""What spython does for us: asks the container runtime, writes definitions. Its only importer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ..core.errors import SystemFault


def labels(path: Path) -> dict[str, str]:
    """Let the runtime read the labels of an image too old to have a table of its own."""
    from spython.main import get_client

    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        return {}  # unknown, which the plan says, since the runtime may exist on the nodes only
    client = get_client(quiet=True)
    # spython 0.3.14 always calls `singularity`, which is absent where only apptainer is.
    client._init_command = lambda action, flags=None: [runtime, *(flags or []), action]
    answer: Any = client.inspect(str(path))
    if "attributes" not in answer:
        words = "".join(answer.get("message", ""))  # a string, or a list of lines
        raise SystemFault(f"{runtime} inspect {path} failed", words)
    return dict(answer["attributes"].get("labels") or {})


def recipe() -> Any:
    """An empty Recipe of spython, to be filled with what one stage of a Dockerfile says."""
    from spython.main.parse.recipe import Recipe

    return Recipe()


def sections(recipe: Any, indent: str) -> list[list[str]]:
    """The sections of a definition that spython writes of a recipe, headings first.

    NOTE: its section writers, not SingularityWriter.convert (0.3.14), which drops empty lines, as
    in a heredoc, joins ENTRYPOINT and CMD, and always writes a script.
    """
    from spython.main.parse.writers import singularity as writer

    found = [writer.create_keyval_section(recipe.files, "files", None)] if recipe.files else []
    for stage, pairs in recipe.layer_files.items():
        found.append(writer.create_keyval_section(pairs, "files", stage))
    if recipe.labels:
        found.append(writer.create_keyval_section(recipe.labels, "labels", None))
    if recipe.install:
        found.append(writer.finish_section(_not_user(recipe.install), "post"))
    if recipe.environ:
        found.append(writer.create_env_section(recipe.environ, "environment"))
    if recipe.entrypoint:
        script = [*([f"cd {recipe.workdir}"] if recipe.workdir else []), recipe.entrypoint]
        found += [writer.finish_section(script, name) for name in ("runscript", "startscript")]
    return [[lines[0], *(f"{indent}{line.lstrip(' ')}" for line in lines[1:])] for lines in found]


def _not_user(lines: list[str]) -> list[str]:
    """spython takes a line that begins with USER, such as USERS=2, for Docker's instruction."""
    return [f" {line}" for line in lines]
