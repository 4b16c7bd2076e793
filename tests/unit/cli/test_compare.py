"""`runner compare`: what it prints of runs side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.cli.runs import compare as compare_command
from runners.scale.compare import Compared, Comparison

from .. import sentences
from ..runs import a_run


@pytest.mark.parametrize(
    ("text", "why"),
    [("[1, 2]", "cannot read {}"), ('{"arguments": [1]}', "cannot compare {}: arguments is not")],
)
def test_runs_are_compared_without_an_odd_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    runs = [a_run(tmp_path / name)[0] for name in ("train-1", "train-2")]
    runs[0].result.write_text(text)
    runs[1].result.write_text('{"accuracy": 0.97, "arguments": null}')
    names = [str(run.root) for run in runs]
    compare_command.compare_command.main([*names, "--json"], standalone_mode=False)
    printed = capsys.readouterr()
    assert why.format(runs[0].result) in printed.err
    facts = json.loads(printed.out)
    assert facts["best"] == "train-2"
    assert list(facts["runs"][0]["measured"]) == ["state"]
    with sentences.raises("sort-number-unknown"):
        compare_command.compare_command.main([*names, "--sort", "nope"], standalone_mode=False)
    assert why.format(runs[0].result) in capsys.readouterr().err


def test_a_sweep_is_compared_with_its_best_run_which_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run that was named first may be the one that diverged."""
    runs = [
        Compared(f"t-{n}", {"--base-lr": lr}, {"state": "completed", "loss": loss})
        for n, lr, loss in ((1, 0.9, 9.0), (2, 0.1, 0.5), (3, 0.2, 0.55))
    ]
    compared = Comparison(runs, [runs[1], runs[2], runs[0]], "loss", ["--base-lr"])
    compare_command._print(compared, False)
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["t-2", "t-3", "t-1"]
    assert "%" not in said.out.splitlines()[1]
    assert "+10 %" in said.out.splitlines()[2]
    assert "best loss: t-2, 0.5; changes are against it" in said.err
