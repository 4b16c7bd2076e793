"""The tables and the drawing of a study."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from runners.scale.measure import Measured
from runners.scale.references import known_references, references
from runners.scale.report import build
from runners.scale.write_results import csv_text, json_value

from .. import sentences
from .scaled import GLOO, question, report, run


@pytest.fixture(scope="module")
def plot() -> Any:
    """Loaded by who draws: Matplotlib takes each worker half a second."""
    from runners.scale import plot

    return plot


def labels(figure: Any) -> set[str]:
    """Return what the legend of a drawing names."""
    return {text.get_text() for text in figure.legends[0].get_texts()}


def test_the_drawing_is_a_picture_in_one_file(plot: Any, tmp_path: Path) -> None:
    plot.write(report(), tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["scaling.png"]


def test_the_drawing_has_each_way_and_the_published_numbers(plot: Any) -> None:
    shown = report(references=references(["all"]))
    figure = plot._figure(shown, [plot.throughput, plot.efficiency, plot.epochs])
    assert "4 ranks on 4 nodes are 3.80 times as fast as 1 rank" in figure.get_suptitle()
    titles = {series.title for series in shown.references}
    assert labels(figure) == {"gloo", "mpi", "perfect scaling", "first epoch", *titles}
    drawn = {line.get_label(): line for line in figure.axes[1].lines}
    for series in shown.references:
        assert tuple(drawn[series.title].get_xdata()) == series.ranks
        assert tuple(drawn[series.title].get_ydata()) == series.efficiency
    assert figure.axes[1].get_ylim()[1] > max(max(s.efficiency) for s in shown.references)


BARE: dict[str, Any] = {
    "rates": (), "epoch_seconds": None, "first_epoch_seconds": None, "launch_seconds": None,
    "job_seconds": None, "accuracy": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "runs", [[], [run(1, 100, variant="gloo")], [run(1, 100, variant="gloo", **BARE)]]
)
def test_little_is_shown_as_little(plot: Any, tmp_path: Path, runs: list[Measured]) -> None:
    shown = build(question(variants=(GLOO,)), runs, ())
    if runs:
        plot.write(shown, tmp_path / "scaling.png")
    json.dumps(json_value(shown), allow_nan=False)


def test_csv_has_a_line_for_each_run() -> None:
    shown = report()
    rows = list(csv.DictReader(io.StringIO(csv_text(shown))))
    assert len(rows) == 18
    assert (rows[0]["variant"], rows[0]["ranks"], rows[-1]["hosts"]) == ("gloo", "1", "n1 n2 n3 n4")


def test_json_has_all_of_it() -> None:
    value = json.loads(json.dumps(json_value(report(waiting=1)), allow_nan=False))
    point = next(p for p in value["points"] if p["variant"] == "mpi" and p["ranks"] == 4)
    assert point["efficiency"]["value"] == pytest.approx(0.95)
    assert point["efficiency"]["low"] < 0.95 < point["efficiency"]["high"]
    assert (value["waiting"], len(value["runs"]), value["question"]["repeats"]) == (1, 18, 3)


def test_published_numbers_have_sources_and_doubts() -> None:
    known = known_references()
    assert all(
        reference.source and len(reference.ranks) == len(reference.efficiency)
        for reference in known.values()
    )
    neuron = known["neuron-tensorflow"]
    assert neuron.efficiency == pytest.approx((1, 8081 / 1054 / 4, 8081 / 604 / 8))
    assert "191% at its best" in neuron.doubt or "192% at its best" in neuron.doubt
    with sentences.raises("reference-unknown"):
        references(["thetagpu-dpp"])
