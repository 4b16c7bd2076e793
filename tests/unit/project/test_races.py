"""A real test that fails first and passes then is named; `.ci/run` fails at the second one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.state import CHECKOUT
from tests.real import __main__ as real

from ..programs import program


@pytest.fixture
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of tests that fail in a lane; they pass when they run again."""
    failed = tmp_path / "lastfailed"
    monkeypatch.setattr(real, "FAILED", tmp_path / "cache")

    def run(*options: str) -> int:
        names = failed.read_text().split()
        if not names or real.AGAIN[0] in options:
            return 0
        real.FAILED.write_text(json.dumps(dict.fromkeys(names, True)))
        return real.EXIT_TESTS_FAILED

    monkeypatch.setattr(real, "run", run)
    return failed


@pytest.mark.parametrize(
    ("lanes", "code"),
    [
        (["", ""], 0),
        (["a", ""], 0),
        (["", "b"], 0),
        (["a", "b"], 1),
        (["a", "a"], 1),
        (["", "a b"], 1),
        (["a b"], 1),
    ],
)
def test_the_second_one_fails_the_run(
    lanes: list[str],
    code: int,
    lane: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(real.RACES, str(tmp_path / "races"))
    for names in lanes:
        lane.write_text(names)
        last = real.main([])
    assert last == code
    if code:
        text = "2 tests of this run failed first and passed then, so it fails:\n  "
        assert text + "\n  ".join(" ".join(lanes).split()) in capfd.readouterr().out


def test_a_lane_by_itself_only_names_them(
    lane: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(real.RACES, raising=False)
    lane.write_text("a b")
    assert real.main([]) == 0
    assert "so there is a race:\n  a\n  b" in capfd.readouterr().out


@pytest.mark.parametrize("fails", ["", "test"])
def test_both_lanes_of_ci_have_one_file_which_is_gone_at_the_end(
    fails: str, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    lines = (
        f'echo "$1 $RUNNER_RACES" >> {said}',
        'test -f "$RUNNER_RACES"',
        '[ "$1" != "$FAILS" ]',
    )
    program(tmp_path / "bin/make", "#!/bin/sh -e", *lines)
    environ = {**os.environ, "FAILS": fails, "TMPDIR": str(tmp_path)}
    environ["PATH"] = f"{tmp_path}/bin:{environ['PATH']}"
    done = subprocess.run([CHECKOUT / ".ci/run"], env=environ, capture_output=True, text=True)
    assert done.returncode == bool(fails), done.stderr
    names, files = zip(*(line.split() for line in said.read_text().splitlines()))
    assert names == (("test",) if fails else ("test", "test-real"))
    assert len(set(files)) == 1
    assert not Path(files[0]).exists()
