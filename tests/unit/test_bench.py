"""The benchmark's arithmetic, table and exit code; nothing is measured here."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bench import __main__ as bench
from tests.bench import first_step, report, throughput
from tests.bench.errors import BenchError, Skipped
from tests.bench.rounds import interleaved, quartiles, ratios


def test_rounds_take_turns_and_change_direction() -> None:
    called: list[str] = []

    def call(name: str) -> int:
        called.append(name)
        return len(called)

    cases = {name: partial(call, name) for name in "ab"}
    assert interleaved(cases, 3) == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert "".join(called) == "abbaab"


def test_a_ratio_is_of_the_same_round() -> None:
    """A round on a machine that was twice as slow counts like any other."""
    assert ratios([2, 4, 2], [1, 2, 1]) == [2, 2, 2]
    assert quartiles([3, 1, 2]) == (1.5, 2, 2.5)
    assert quartiles([7]) == (7, 7, 7)


def test_a_row_shows_median_ratio_and_aim() -> None:
    one = report.compared("help", [40, 42, 44], "ms", "click", [40, 40, 40], "< 3")
    assert one.cells() == ["help", "42.0 ms", "1.050", "1.025 to 1.075", "click", "< 3", "3"]
    assert report.row("click", [0.2], "s").cells()[1:3] == ["0.20 s", ""]


def test_what_runner_adds_leaves_the_trainer_out() -> None:
    hand = [{"total": 5.5, "wait": 0.5, "trainer": 4.5}]
    slower = [{"total": 9.0, "wait": 0.0, "trainer": 8.4}]
    text = first_step.added(first_step.by_part(hand), first_step.by_part(slower))
    assert "runner takes +0.10 s: +2.0% of the way by hand" in text


def test_the_first_epoch_is_no_speed(tmp_path: Path) -> None:
    lines = [
        json.dumps({"event": event, "samples_per_s": speed})
        for event, speed in (
            ("epoch", 1),
            ("epoch", 30),
            ("step", 99),
            ("epoch", 10),
            ("epoch", 20),
        )
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert throughput.samples_per_second(tmp_path) == 20


def _part(error: Exception) -> SimpleNamespace:
    def measure() -> report.Part:
        raise error

    return SimpleNamespace(TITLE="a part", measure=measure)


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (Skipped("mpirun is not on this machine"), 0, "skipped: mpirun is not on this machine"),
        (BenchError("exit code 3 from: x"), 1, "failed: exit code 3 from: x"),
    ],
)
def test_only_what_should_have_run_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: Exception,
    code: int,
    shown: str,
) -> None:
    monkeypatch.setattr(bench, "PARTS", {"one": _part(error)})
    monkeypatch.setattr(bench, "OUTPUT", tmp_path / "build" / "bench.json")
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    monkeypatch.setattr("sys.argv", ["bench"])
    assert bench.main() == code
    assert shown in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "bench.json").read_text())["parts"][0]["title"]
