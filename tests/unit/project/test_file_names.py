"""Whoever looks for something guesses the name of its file: each name stands for one file."""

from __future__ import annotations

from collections import defaultdict

from tests.documents import ROOT

MANY = ("__init__.py", "__main__.py")


def test_no_file_name_stands_twice() -> None:
    """Files of `cli/` are named after their commands, some of which are named after a room."""
    places = defaultdict(list)
    for folder in ("containers", "recipes", "runners", "addons/convert/runner_convert"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.name not in MANY and "cli" not in file.relative_to(ROOT).parts:
                places[file.name].append(str(file.relative_to(ROOT)))
    assert not {name: files for name, files in places.items() if len(files) > 1}
