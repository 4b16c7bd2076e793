"""What a rank's shim tells rank 0's at its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runners.contract.enums import Controller
from runners.injob import task
from runners.injob.rank import reports
from runners.injob.rank.gate_settings import GateSettings
from runners.injob.rank.referee import Referee
from runners.injob.rank.reports import Inbox, ReportState

from .srun_environment import SRUN


@pytest.mark.parametrize("check", [True, False])
def test_a_rank_leaves_only_when_its_last_report_has_arrived(check: bool) -> None:
    """Else rank 0 may wait ten seconds for it: the job takes so long to end."""
    told: list[tuple[str, bool]] = []
    session: Any = SimpleNamespace(mail=[], tell=lambda text, last: told.append((text, last)))
    me = task.read("srun", SRUN)
    settings = GateSettings(me, Controller.NONE, "", ("", ""), (0, ""), meets=False, check=check)
    Referee(settings, Inbox(), session, end=lambda: None).last()
    ((text, last),) = told
    report = reports.parse(text.encode())
    assert report is not None
    assert (report.state, last) == (ReportState.ENDED, True)
