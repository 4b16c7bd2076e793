"""The recorded demo: what appeared is kept as it was, and shows nothing of the machine."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path

import pytest

from tests import demo
from tests.cluster.state import CHECKOUT

PICTURE = CHECKOUT / "docs" / "demo" / "demo.svg"


def test_the_picture_shows_the_demo() -> None:
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    command = re.search(r"^DEMO := (.+)$", makefile, re.MULTILINE)
    assert command is not None
    picture = PICTURE.read_text(encoding="utf-8")
    words = html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture)))
    first, second = command[1].split(" --controller ")
    shown = words.replace("\N{NO-BREAK SPACE}", " ")
    assert first in shown, "run: make docs-demo"
    assert f"--controller {second}" in shown, "run: make docs-demo"
    assert "one world of 2 ranks (Horovod)" in shown
    folders = re.findall(r"(?<!\w)/\w[\w/]*", shown)
    assert {folder[: len(demo.FOLDER)] for folder in folders} == {demo.FOLDER}
    assert PICTURE.stat().st_size < 300_000


def test_a_command_is_recorded_as_it_appears() -> None:
    events = list(demo.record(["sh", "-c", "stty size; sleep 0.2; echo grün"]))
    text = "".join(text for _, text in events)
    assert text == f"{demo.ROWS} {demo.COLUMNS}\r\ngrün\r\n"
    assert 0.2 <= events[-1][0] < 10


def test_a_command_that_fails_is_no_demo() -> None:
    with pytest.raises(SystemExit) as ended:
        list(demo.record([sys.executable, "-c", "raise SystemExit(3)"]))
    assert ended.value.code == 3


def test_names_of_the_machine_are_refused() -> None:
    with pytest.raises(SystemExit, match="names of this machine"):
        demo.refuse_names(f"job 1 submitted, in {CHECKOUT}/runs")


def test_a_cast_is_asciinemas(tmp_path: Path) -> None:
    demo.write_cast(tmp_path / "a.cast", [(0.5, "a\r\n")])
    header, event = map(json.loads, (tmp_path / "a.cast").read_text(encoding="utf-8").splitlines())
    assert header == {"version": 2, "width": demo.COLUMNS, "height": demo.ROWS}
    assert event == [0.5, "o", "a\r\n"]
