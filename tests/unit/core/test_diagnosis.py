"""A diagnosis: its text, its JSON, and that each that is made has an id."""

from __future__ import annotations

from runners.core import diagnosis
from runners.core.diagnosis import Certainty, Diagnosis, Severity
from runners.core.errors import Refused, UsageError
from runners.core.remedy import Remedy, advice, change
from tests import diagnoses

FULL = diagnosis.refusal("disk-full", "the disk is full", "df: 0\ndf: 1\n", advice("free some"))


def test_a_diagnosis_is_a_sentence_with_evidence_and_what_to_try() -> None:
    lines = list(diagnosis.lines(FULL))
    assert lines == ["the disk is full", "  df: 0", "  df: 1", "  try: free some"]
    warned = diagnosis.warning("gpus-idle", "2 stay idle", change(nodes=2))
    typed = list(diagnosis.lines(warned, lambda remedy: f"runner launch {remedy}"))
    assert typed == ["2 stay idle", "  try: runner launch --nodes 2"]


def test_the_first_line_of_a_table_stays_above_its_columns() -> None:
    found = diagnosis.refusal("ranks-wait", "two wait", "\n   rank  host\n      0  n1\n\n")
    assert found.evidence_lines == ["   rank  host", "      0  n1"]


def test_a_line_of_a_log_stays_one_line() -> None:
    found = diagnosis.refusal(
        "log-line", "it failed", "a.log:1: \x0c 50 %\u2028 next\r\na.log:2: end\n"
    )
    assert found.evidence_lines == ["a.log:1: \x0c 50 %\u2028 next", "a.log:2: end"]
    assert diagnosis.refusal("no-line", "it failed").evidence_lines == []


def test_its_json_has_an_id_and_a_version() -> None:
    def typed(remedy: Remedy) -> dict[str, object]:
        return {"kind": remedy.kind, "text": remedy.text}

    value = diagnosis.as_data(FULL, typed)
    assert value == {
        "id": "disk-full",
        "severity": Severity.FAILURE,
        "what": "the disk is full",
        "evidence": ["df: 0", "df: 1"],
        "remedies": [{"kind": "advice", "text": "free some"}],
        "certainty": Certainty.CERTAIN,
    }
    assert diagnosis.document([value], works=False) == {
        "version": diagnosis.VERSION,
        "diagnoses": [value],
        "works": False,
    }


def test_an_error_is_a_diagnosis_that_is_raised() -> None:
    error = Refused("no", "why", change(nodes=1))
    told = Diagnosis("refused", Severity.FAILURE, "no", "why", (change(nodes=1),))
    assert error.diagnosis == told
    assert str(error) == "no\n  why\n  try: --nodes 1"
    assert UsageError("no", id="sweep-empty").diagnosis.id == "sweep-empty"
    error.change(remedies=())
    assert (error.remedies, str(error)) == ((), "no\n  why")


def test_each_diagnosis_of_a_plan_has_an_id() -> None:
    found = list(diagnoses.calls())
    assert len(found) > 100
    without = [
        path.name for path, call in found if not diagnoses.ID.fullmatch(diagnoses.id_of(call))
    ]
    assert without == ["case.py", "case.py"], "the log passes on what it is called with"
