"""Our edits of the Horovod 0.28.1 source archive: for today's frameworks, and for speed on CPUs.

Horovod 0.28.1 (June 2023) is the last release. It predates torch 2.1, TensorFlow 2.16 and
Python 3.12. Run as a program on a freshly unpacked source tree:

    python3 -m containers.horovod.edits SOURCE_DIR

Our code stands in `src/` as C++ and beside this file as Python. Beside the C++ the edits stand, a
file for each subject: each has its reason, the new files, and the rows that hook them in (edit.py).
Nothing is written where a row does not fit: the tree is not the released 0.28.1, or was edited
before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .edit import EditError, NewFile, Row, apply

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
SRC = HERE / "src"


def _listed() -> Iterator[dict[str, Any]]:
    """Yield the edits of all subjects."""
    for path in sorted(SRC.glob("*.toml")):
        yield from tomllib.loads(path.read_text(encoding="utf-8"))["edit"]


def _new_file(name: str, why: str) -> NewFile:
    """Return the copy of our file of that name, C++ or Python."""
    source = Path(name).name
    return NewFile(name, (HERE if source.endswith(".py") else SRC) / source, why)


EDITS = tuple(_listed())
ROWS = tuple(Row(why=edit["why"], **row) for edit in EDITS for row in edit.get("row", ()))
NEW_FILES = tuple(
    _new_file(name, edit["why"]) for edit in EDITS for name in edit.get("new_files", ())
)


def edit(tree: Path) -> list[str]:
    """Edit a freshly unpacked tree; return the edited files. Raises EditError."""
    try:
        return apply(tree, ROWS, NEW_FILES)
    except EditError as error:
        advice = "Edit a freshly unpacked horovod-0.28.1; the build edits the tree it runs in."
        raise EditError(f"{error}\n{advice}") from None


def main(argv: list[str]) -> int:
    """Edit the source tree named on the command line."""
    if len(argv) != 1:
        print("usage: python3 -m containers.horovod.edits SOURCE_DIR", file=sys.stderr)
        return 2
    try:
        files = edit(Path(argv[0]))
    except EditError as error:
        print(f"edits.py: {error}", file=sys.stderr)
        return 1
    print(f"edits.py: {len(ROWS)} rows and {len(NEW_FILES)} new files, {len(files)} files in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
