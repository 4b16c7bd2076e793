"""Each case of `signatures/cases` is told as what it is; one page has all that is said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runners.explain import judge, message_signatures, run_signatures
from runners.explain.explanation import Explanation
from runners.explain.run_signatures import RunSignature

from .. import sentences
from .cases import RUN, Case, cases, remedies
from .sentences import page

CASES = tuple(cases())
OF_AN_IMAGE = re.compile(r" image (?!is|cannot)|runner build|--bind")
COMPUTED = "code"  # the file of those of signatures that are no entry
# What they look at is not in a case: the image's time, the run's folder that is gone (`test_judge`)
OF_FILES = {"image-overwritten", "run-folder-deleted"}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_is_told_as_what_it_is(tmp_path: Path, case: Case) -> None:
    explanation = case.told(tmp_path)
    root = str(tmp_path / "t-1")
    ways = tuple(way.replace(root, RUN) for way in remedies(explanation))
    told = (explanation.id, explanation.certainty.value, ways)
    assert told == (case.id, case.certainty, case.remedies), explanation
    named = "".join(record.name for record in case.records[:1]) if case.who is None else case.who
    assert explanation.who == named
    evidence = [line.replace(root, RUN) for line in explanation.evidence_lines]
    assert not {*case.evidence} - {*evidence}, evidence


def test_all_that_is_said_is_on_one_page() -> None:
    assert page() == sentences.explained(), "python3 -m tests.unit.sentences"


def test_each_signature_has_a_case() -> None:
    known = {signature.name for signature in judge.SIGNATURES}
    assert known - {case.id for case in CASES} == OF_FILES


def test_in_all_cases_each_entry_speaks_and_nothing_is_said_of_an_image_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an image without one only what is true of images alone."""
    spoke, wrong = [], []
    told = run_signatures.told

    def noted(entry: RunSignature, *facts: Any) -> Explanation:
        spoke.append(entry)
        return told(entry, *facts)

    monkeypatch.setattr(run_signatures, "told", noted)
    for number, case in enumerate(CASES):
        explanation = case.told(tmp_path / str(number))
        texts = (explanation.what, explanation.because, *explanation.steps, *remedies(explanation))
        if (case.plan or {}).get("launching", {}).get("runtime") == "none":
            wrong += [text for text in texts if OF_AN_IMAGE.search(text)]
    silent = [entry for entry in run_signatures.entries() if entry not in spoke]
    assert not [f"{entry.id}: {entry.when}" for entry in silent]
    assert not wrong


def test_a_case_is_in_the_file_of_its_signature() -> None:
    files = sorted(run_signatures.FOLDER.glob("*.toml"))
    of_file = {entry.id: entry.about for entry in message_signatures.entries()}
    of_file.update({entry.id: file.stem for file in files for entry in run_signatures.read(file)})
    wrong = [case.name for case in CASES if case.about != of_file.get(case.id, COMPUTED)]
    assert not wrong
