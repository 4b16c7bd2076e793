"""What a file is that `runner convert` reads, and which options are for it."""

from __future__ import annotations

from collections.abc import Sequence

from runners.contract.enums import WordEnum
from runners.core.errors import UsageError

from . import directives

SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".job", ".batch", ".sub")


class FileKind(WordEnum):
    """A file that can be converted."""

    DOCKERFILE = "dockerfile"
    DEFINITION = "definition"
    BATCH = "batch"


# The options that are for it alone.
OPTIONS = {
    FileKind.DOCKERFILE: ("--output", "--target"),
    FileKind.DEFINITION: ("--output",),
    FileKind.BATCH: ("--check", "--json"),
}


def kind_of(text: str, name: str, given: Sequence[str], chosen: FileKind | None = None) -> FileKind:
    """Return what a text is, by its content unless it was `chosen`.

    Raises UsageError for options `given` that are for the other kind.
    """
    kind = chosen or _by_content(text, name)
    wrong = [option for option in given if option not in OPTIONS[kind]]
    if wrong and kind is FileKind.BATCH:
        raise UsageError(
            f"{wrong[0]} is for a definition",
            "a launch line is printed",
            id="option-for-definition",
        )
    if wrong:
        others = next(other_kind for other_kind, options in OPTIONS.items() if wrong[0] in options)
        what = "a batch script" if others is FileKind.BATCH else f"a {others}"
        raise UsageError(
            f"{name} is read as a {kind}", f"{wrong[0]} is for {what}", id="option-of-other-kind"
        )
    return kind


def _by_content(text: str, name: str) -> FileKind:
    if _is_batch(text, name):
        return FileKind.BATCH
    rows = (line.strip().lower() for line in text.splitlines())
    first = next((row for row in rows if row and row[0] != "#"), "")
    if first.split(" ")[0] in ("from", "arg"):
        return FileKind.DOCKERFILE
    headers = first.partition(":")[0].strip() in ("bootstrap", "from") and ":" in first
    return FileKind.DEFINITION if headers or name.endswith(".def") else FileKind.DOCKERFILE


def _is_batch(text: str, name: str) -> bool:
    """Whether a text is a batch script, by its first line, its directives or its name."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if first.split()[:1] and first.split()[0].upper() in ("FROM", "ARG"):
        return False
    marks = (*directives.MARKS, *directives.FOREIGN)
    marked = any(line.startswith(marks) for line in lines)
    return text.startswith("#!") or name.endswith(SUFFIXES) or marked
