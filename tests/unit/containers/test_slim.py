"""What is left out of an image's packages: the lists, and carrying them out on small files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from containers import image_catalogue, slim

from .. import sentences

LIST = """\
# a comment
drop  package/include   # no headers

drop  package/**/tests  # its own tests
"""


def test_a_list_is_read() -> None:
    assert slim.parse(LIST) == [
        slim.Entry("drop", "package/include", "no headers"),
        slim.Entry("drop", "package/**/tests", "its own tests"),
    ]


@pytest.mark.parametrize(
    "line", ["drop package", "remove package # cost", "drop # cost", "drop x #"]
)
def test_a_line_must_say_what_it_costs(line: str) -> None:
    with sentences.refuses(slim.SlimError):
        slim.parse(f"# header\n{line}\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in ("include/a.h", "sub/tests/t.py", "sub/code.py"):
        file = tmp_path / "site" / "package" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * 1000)
    return tmp_path / "site"


def test_what_is_dropped_is_gone_and_counted(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list").write_text(LIST)
    assert slim.main([str(tmp_path / "list"), str(site)]) == 0
    assert [file.name for file in site.rglob("*") if file.is_file()] == ["code.py"]
    assert "0.0 MB  in all" in capsys.readouterr().out


def test_a_dropped_link_leaves_what_it_leads_to(site: Path) -> None:
    (site / "link").symlink_to("package")
    slim.carry_out(slim.Entry("drop", "link", "nothing"), site)
    assert (site / "package" / "sub" / "code.py").exists()
    assert not (site / "link").is_symlink()


def test_a_pattern_for_other_versions_is_an_error(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "horovod.slim").write_text("drop package/gone  # nothing\n")
    assert slim.main([str(tmp_path / "horovod.slim"), str(site)]) == 1
    assert "package/gone" in sentences.said(capsys.readouterr().err)


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler on this machine")
def test_a_stripped_library_is_smaller_and_still_loads(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "static int hidden(void) { return 7; } int f(void) { return hidden(); }"
    )
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", "a.so", "a.c"], check=True, cwd=tmp_path)
    shutil.copy(tmp_path / "a.so", tmp_path / "before.so")
    saved = slim.carry_out(slim.Entry("strip", "a.so", "names"), tmp_path)
    assert saved == (tmp_path / "before.so").stat().st_size - (tmp_path / "a.so").stat().st_size > 0
    code = "import ctypes; print(ctypes.CDLL('./a.so').f())"
    done = subprocess.run(["python3", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "7\n"


@pytest.mark.parametrize("image", [*image_catalogue.IMAGES.values()])
def test_our_own_lists_are_read(image: image_catalogue.Image) -> None:
    entries = slim.parse((image_catalogue.HERE / image.slim).read_text(encoding="utf-8"))
    patterns = [entry.pattern for entry in entries]
    assert len(patterns) == len(set(patterns))
    verbs = [entry.verb for entry in entries]
    assert verbs == sorted(verbs)  # what is dropped need not be stripped first
