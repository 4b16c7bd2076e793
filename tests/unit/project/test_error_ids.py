"""Each error of ours has an id of its own: what a program and a test compare."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests import diagnoses
from tests.unit.sentences import EXPLAINED, PAGE, ROOT, TESTS

# The same fault in more than one module.
SHARED = {"cancel-failed", "image-not-given", "job-not-running", "job-refused", "slurm-silent"}


def test_each_error_has_an_id() -> None:
    without = [
        f"{path}:{error.lineno}"
        for path, error in diagnoses.errors()
        if any(not diagnoses.ID.fullmatch(id) for id in diagnoses.ids_of(error))
    ]
    assert not without, 'give it an id that names the fault: id="image-not-given"'


def test_an_id_is_of_one_fault() -> None:
    modules: dict[str, set[Path]] = defaultdict(set)
    for path, error in diagnoses.errors():
        for id in diagnoses.ids_of(error):
            modules[id].add(path)
    assert {id for id, paths in modules.items() if len(paths) > 1} == SHARED
    assert not modules.keys() & set(diagnoses.ids()), "a plan is refused for something else"


def test_a_kind_of_error_that_is_one_fault_has_an_id() -> None:
    without = [kind.name for _, kind in diagnoses.kinds() if not diagnoses.id_of_kind(kind)]
    assert not without


def test_what_is_on_the_page_of_sentences_is_still_said() -> None:
    errors = PAGE.read_text(encoding="utf-8").partition(EXPLAINED)[0]
    said = set(re.findall(r"^([a-z0-9-]+) \(", errors, re.MULTILINE))
    known = {*diagnoses.ids(), *diagnoses.error_ids()}
    assert len(said) > 50
    assert said <= known, "python3 -m tests.unit.sentences"


def test_each_test_that_the_page_names_is_there() -> None:
    errors = PAGE.read_text(encoding="utf-8").partition(EXPLAINED)[0]
    titles = re.findall(r"^(\w+)/(test_\w+): (test_\w+)", errors, re.MULTILINE)
    gone = []
    for room, module, test in titles:
        files = [file for kind in TESTS for file in ROOT.glob(kind) if file.stem == module]
        files = [file for file in files if file.parent.name == room]
        if not any(f"def {test}(" in file.read_text(encoding="utf-8") for file in files):
            gone.append((room, module, test))
    assert titles
    assert not gone, "python3 -m tests.unit.sentences"
