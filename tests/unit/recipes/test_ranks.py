"""`distributed.together`: one message and one exit code for all ranks."""

from __future__ import annotations

import re

import pytest

from recipes import distributed
from recipes.distributed import Failed, UserError

from .one_rank import one_rank


@pytest.fixture
def _catch_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave by an exception instead of ending the tests."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(distributed, "leave", leave)


def fail() -> int:
    raise UserError("bad")


def diverge() -> int:
    raise Failed("training diverged")


def test_together_returns_the_value() -> None:
    assert distributed.together(one_rank(others=((None, "n2", None),)), lambda: 7) == 7


@pytest.mark.usefixtures("_catch_leaving")
def test_together_stops_a_healthy_rank_when_another_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = one_rank(others=((None, "n2", ("the data folder /d does not exist", 2)),))
    with pytest.raises(SystemExit) as caught:
        distributed.together(world, lambda: 7)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: on rank 1@n2: the data folder /d does not exist\n"


@pytest.mark.usefixtures("_catch_leaving")
def test_only_rank_0_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        distributed.together(one_rank(rank=1, others=((None, "n1", ("bad", 2)),)), fail)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("_catch_leaving")
def test_each_different_failure_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    others = ((None, "n2", None), (None, "n3", ("that", 1)), (None, "n4", ("bad", 2)))
    with pytest.raises(SystemExit) as caught:
        distributed.together(one_rank(others=others), fail)
    assert caught.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"error: on rank 0@\S+, 3@n4: bad", first)
    assert second == "error: on rank 2@n3: that"
    with pytest.raises(SystemExit):
        distributed.together(one_rank(size=2), fail)
    assert capsys.readouterr().err == "error: bad\n"


@pytest.mark.usefixtures("_catch_leaving")
def test_a_failed_training_has_its_own_exit_code() -> None:
    with pytest.raises(SystemExit) as caught:
        distributed.together(one_rank(), diverge)
    assert caught.value.code == 1
