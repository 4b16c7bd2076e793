"""Tables, drawings and the page of a study."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from runners.core.errors import UsageError
from runners.scale import plot
from runners.scale.measure import Measured
from runners.scale.references import known_references, references
from runners.scale.report import FailedPoint, build
from runners.scale.results import csv_text, json_value

from .scaled import GLOO, question, report, run

VOID = {"meta", "link", "br", "img"}


@pytest.fixture(scope="module")
def page() -> Any:
    """Loaded by who draws: Matplotlib takes each worker half a second."""
    from runners.scale import page

    return page


class Checked(HTMLParser):
    """Sees that elements are closed in order, identifiers are unique, and nothing is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert tag not in ("script", "iframe", "img")
        for name in ("src", "href", "xlink:href"):
            assert (values.get(name) or "#").startswith(("#", "data:,"))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_alone_and_names_from_outside_are_text(page: Any) -> None:
    evil = "<script>alert(1)</script>"
    failed = [FailedPoint(evil, f"rank 1@n1: {evil}")]
    names = {"failed": failed, "command": f"runner {evil}"}
    shown = report(references=references(["all"]), waiting=2, **names)
    text = page.html(shown, 0)
    assert text.count("&lt;script&gt;") == 3
    seen = Checked(text)
    assert text.count("<svg") == 3
    assert "4 ranks on 4 nodes are 3.80 times as fast as 1 rank" in " ".join(seen.text.split())
    assert "url(http" not in text
    assert "@import" not in text
    for expected in ("2 to come", "1970-01-01 00:00 UTC", "mpi to gloo"):
        assert expected in seen.text
    for each in shown.references:
        assert each.source in seen.text
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= ids


def test_a_drawing_is_always_the_same_and_has_the_pages_colours(page: Any) -> None:
    panel = plot.panels(report())[0]
    text = page.inline(panel, report())
    assert text == page.inline(panel, report())
    colours = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", text))
    assert colours == set(), "each would stay as it is on dark paper"
    assert "var(--c0, #0072b2)" in text


BARE: dict[str, Any] = {
    "rates": (), "epoch_seconds": None, "first_epoch_seconds": None, "launch_seconds": None,
    "job_seconds": None, "accuracy": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "runs", [[], [run(1, 100, variant="gloo")], [run(1, 100, variant="gloo", **BARE)]]
)
def test_little_is_shown_as_little(page: Any, runs: list[Measured]) -> None:
    shown = build(question(variants=(GLOO,)), runs, ())
    Checked(page.html(shown, 0))
    json.dumps(json_value(shown), allow_nan=False)


def test_files_are_pictures(page: Any, tmp_path: Path) -> None:
    page.draw(report(), tmp_path / "a.png", tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.fromstring((tmp_path / "a.svg").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


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
    assert all(each.source and len(each.ranks) == len(each.efficiency) for each in known.values())
    neuron = known["neuron-tensorflow"]
    assert neuron.efficiency == pytest.approx((1, 8081 / 1054 / 4, 8081 / 604 / 8))
    assert "191% at its best" in neuron.doubt or "192% at its best" in neuron.doubt
    with pytest.raises(UsageError, match="there is none") as error:
        references(["thetagpu-dpp"])
    assert "thetagpu-ddp" in str(error.value)
