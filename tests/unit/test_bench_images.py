"""What the measurements of images are made of, apart from measuring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.errors import BenchError
from tests.bench.images import __main__ as images
from tests.bench.images import builds, forms, packing, start
from tests.bench.login.together import together
from tests.bench.report import Part

LOG = """\
build mode: fakeroot with subordinate ids (uid map: 0 1000 1, 1 100000 65536)
[1/6] wheels: nothing to do
[2/6] base to compile in ...
[2/6] base to compile in: 48 s
[3/6] base of the image: 40 s
[4/6] Horovod wheel: 301 s
[5/6] environment, with its test: 170 s
[6/6] image: environment and trainers: 9 s
bill of materials: /scratch/ada/images/horovod_cpu.cdx.json
"""


def test_phases_are_read_from_what_a_build_prints() -> None:
    assert builds.phases(LOG) == {
        "base to compile in": 48,
        "base of the image": 40,
        "Horovod wheel": 301,
        "environment, with its test": 170,
        "image: environment and trainers": 9,
    }
    assert builds.phases("wheels, with this machine's pip: 26 s") == {
        "wheels, with this machine's pip": 26
    }


def test_a_changed_lock_does_not_make_the_bases_again() -> None:
    assert builds.after_lock(builds.phases(LOG)) == 301 + 170 + 9


def test_the_aim_is_of_the_whole_build() -> None:
    rows = builds.aimed(builds.rows_of(builds.phases(LOG)), "<= 600")
    assert [one.aim for one in rows] == ["<= 600", "", "", "", ""]


def test_the_packing_of_our_images_is_among_those_tried() -> None:
    assert forms.chosen().name == "zstd-19 1M"
    assert len({form.file for form in forms.FORMS}) == len(forms.FORMS)
    assert forms.zstd(9, "1M").file == "zstd-9-1M.sqfs"


def test_a_packing_that_is_not_tried_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "ZSTD", "-comp xz")
    with pytest.raises(LookupError, match="-comp xz"):
        forms.chosen()


def test_imports_are_compared_with_the_plain_environment() -> None:
    took = {forms.PLAIN: [1.0, 2.0], forms.FOLDER: [1.1, 2.2], "zstd": [2.0, 4.0]}
    rows = {row.what: row for row in start.table(took, "torch")}
    assert (rows["zstd"].ratio, rows["zstd"].to) == (2, forms.PLAIN)
    assert rows[forms.PLAIN].ratio is None


def test_starting_nothing_is_compared_with_the_folder() -> None:
    took = {forms.PLAIN: [0.001], forms.FOLDER: [0.1], "zstd": [0.2]}
    rows = {row.what: row for row in start.table(took, start.TRUE)}
    assert forms.PLAIN not in rows
    assert (rows["zstd"].ratio, rows["zstd"].to) == (2, forms.FOLDER)


def test_sizes_and_times_of_packing() -> None:
    rows = packing.table({"zstd": 490.1}, {"zstd": 36.0})
    assert [row.cells()[:2] for row in rows] == [["zstd", "490 MB"], ["zstd, packing", "36.00 s"]]


def test_ranks_start_at_once_and_their_failures_are_told() -> None:
    found = together(["sh", "-c", "sleep 0.2"], 4)
    assert found["failed"] == []
    assert 0.2 <= found["seconds"] < 0.8
    script = r"""printf 'why\033[0m\n\033[0m' >&2; exit 3"""
    failed = together(["sh", "-c", script], 2)["failed"]
    assert failed == ["exit code 3: why"] * 2
    with pytest.raises(BenchError, match="2 of 2 failed: exit code 3: why"):
        start.seconds_of({"failed": failed, "seconds": 1.0}, 2)


def test_the_plain_environment_runs_its_own_python(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 7\n")
    python.chmod(0o755)
    with pytest.raises(BenchError, match="1 of 1 failed: exit code 7"):
        start.in_environment(tmp_path, "torch")


def test_an_unknown_part_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["images", "nonsense"])
    with pytest.raises(SystemExit):
        images.main()
    assert "there is: pack, warm, cold" in capsys.readouterr().err


def test_a_part_that_fails_is_told_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails() -> list[Part]:
        raise BenchError("not packed: zstd")

    monkeypatch.setattr(images, "PARTS", {"one": fails, "two": lambda: [Part("two")]})
    monkeypatch.setattr(images, "DEFAULT", ("one", "two"))
    monkeypatch.setattr(images, "OUTPUT", tmp_path / "build" / "images.json")
    monkeypatch.setattr(images, "CHECKOUT", tmp_path)
    monkeypatch.setattr("sys.argv", ["images"])
    assert images.main() == 1
    assert "failed: not packed: zstd" in capsys.readouterr().out
    written = json.loads((tmp_path / "build" / "images.json").read_text())
    assert [part["title"] for part in written["parts"]] == ["one", "two"]
