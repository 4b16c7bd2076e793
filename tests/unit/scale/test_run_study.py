"""What is news of a study at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.core.errors import Refused
from runners.core.job_record import JobPaths
from runners.core.progress import Listener
from runners.core.remedy import Remedy, change
from runners.scale.drafts import Drafts
from runners.scale.run_study import StudyCounts, Work, news
from runners.scale.study import PointState, PointStatus, StudyPaths, StudyRecord

from .scaled import GLOO, question

FIRST, SECOND = question((1,), 2, variants=(GLOO,)).points()
RUNS = Path("runs")


def stands(state: PointState, folder: str) -> PointStatus:
    return PointStatus(FIRST, state, JobPaths(RUNS / folder))


OTHER = PointStatus(SECOND, PointState.OPEN, JobPaths(RUNS / "other"))
OPEN, FAILED = stands(PointState.OPEN, "one"), stands(PointState.FAILED, "one")


def test_a_run_that_has_ended_is_told_once_and_the_counts_when_they_change() -> None:
    first = list(news([], [OPEN, OTHER]))
    assert first == [StudyCounts({PointState.OPEN: 2})]
    ended = list(news([OPEN, OTHER], [FAILED, OTHER]))
    assert ended == [FAILED, StudyCounts({PointState.FAILED: 1, PointState.OPEN: 1})]
    assert list(news([FAILED, OTHER], [FAILED, OTHER])) == []


def test_what_had_ended_before_the_first_look_is_counted_only() -> None:
    assert list(news([], [FAILED])) == [StudyCounts({PointState.FAILED: 1})]


def test_a_second_failure_is_told_though_the_counts_are_the_same() -> None:
    again = stands(PointState.FAILED, "one.2")
    assert list(news([FAILED], [again])) == [again]


@pytest.mark.parametrize(
    ("remedies", "shown"), [((), change(at_once=1)), ([change(nodes=1)], change(nodes=1))]
)
def test_a_first_submission_that_is_refused_keeps_its_diagnosis(
    monkeypatch: pytest.MonkeyPatch, remedies: list[Remedy], shown: Remedy
) -> None:
    def refused(*_: Any) -> None:
        raise Refused("too many jobs", "QOSMaxSubmit", remedies, id="submit-limit")

    monkeypatch.setattr(Work, "_hand_over", refused)
    record = StudyRecord(question((1,), 1, variants=(GLOO,)), (), "/")
    work = Work(Drafts(StudyPaths(RUNS), record, Listener()), 0)
    with pytest.raises(Refused) as told:
        work._submit([PointStatus(FIRST, PointState.TO_DO)])
    assert (told.value.diagnosis.id, told.value.remedies) == ("submit-limit", (shown,))
