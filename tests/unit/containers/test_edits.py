"""The edits of Horovod's source and of installed packages, on small trees."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from containers import catalogue, installed_edits, lockfile
from containers.horovod import edits
from containers.horovod.edit import Edit, EditError, NewFile, Repeat, apply

from ..tables import each

TWICE = Edit("a/one.txt", "old", "new", "because", count=2)
ONCE = Edit("two.txt", "left", "right", "because")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("old and old\n")
    (tmp_path / "two.txt").write_text("left\n")
    return tmp_path


def released(tree: Path) -> None:
    """A tree in which the project's own edits all match."""
    written = set()
    for edit in edits.EDITS:
        path = tree / edit.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(edit, NewFile):
            continue
        text = f"{edit.old.rstrip()}\n" if isinstance(edit, Edit) else repeated(edit)
        if (edit.file, text) not in written:
            with path.open("a") as file:
                file.write(text * edit.count)
        written.add((edit.file, text))


def repeated(edit: Repeat) -> str:
    """A text that an edit repeats: with each name, and no name twice where it is in `start`."""
    names = (old for old, _ in edit.names if old not in edit.start)
    return f"{edit.start} {' '.join(names)} {edit.end}\n"


def test_edits_are_made(tree: Path) -> None:
    assert apply(tree, (TWICE, ONCE)) == ["a/one.txt", "two.txt"]
    assert (tree / "a" / "one.txt").read_text() == "new and new\n"
    assert (tree / "two.txt").read_text() == "right\n"


def test_two_edits_of_one_file_add_up(tree: Path) -> None:
    apply(tree, (TWICE, Edit("a/one.txt", "and", "or", "because")))
    assert (tree / "a" / "one.txt").read_text() == "new or new\n"


def test_a_wrong_count_names_file_text_and_counts_and_writes_nothing(tree: Path) -> None:
    wrong = Edit("two.txt", "left", "right", "because", count=3)
    with pytest.raises(EditError, match=r"two.txt: expected 3 time\(s\), found 1: 'left'"):
        apply(tree, (TWICE, wrong))
    assert (tree / "a" / "one.txt").read_text() == "old and old\n"


def test_a_missing_file_is_named(tree: Path) -> None:
    with pytest.raises(EditError, match=r"three.txt: no such file in .*; is it horovod-0.28.1\?"):
        apply(tree, (Edit("three.txt", "x", "y", "because"),))


CASES = "case A16:\n  a();\n  case A32:\n  b();\n"
CASE = Repeat("cases.cc", "case A16:", "case A32:", (("A16", "B16"), ("a()", "b16()")), "because")


def test_a_repeated_text_follows_the_original_with_its_names_replaced(tmp_path: Path) -> None:
    (tmp_path / "cases.cc").write_text(CASES)
    apply(tmp_path, (CASE,))
    expected = "case A16:\n  a();\n  case B16:\n  b16();\n  case A32:\n  b();\n"
    assert (tmp_path / "cases.cc").read_text() == expected


@each(
    (CASES * 2, r"cases.cc: expected 1 time\(s\), found 2: 'case A16:'"),
    (CASES.replace("A32", "A64"), "cases.cc: expected after 'case A16:': 'case A32:'"),
    (CASES.replace("a()", "c()"), r"cases.cc: expected 'a\(\)' in 'case B16:"),
)
def test_a_text_that_cannot_be_repeated_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "cases.cc").write_text(text)
    with pytest.raises(EditError, match=message):
        apply(tmp_path, (CASE,))
    assert (tmp_path / "cases.cc").read_text() == text


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    new = NewFile("new.h", "struct s;\n", "because")
    apply(tmp_path, (new,))
    assert (tmp_path / "new.h").read_text() == "struct s;\n"
    with pytest.raises(EditError, match=r"new.h: exists already"):
        apply(tmp_path, (new,))


def test_our_own_edits_apply_once_and_not_twice(tmp_path: Path) -> None:
    released(tmp_path)
    apply(tmp_path, edits.EDITS)
    with pytest.raises(EditError, match="freshly unpacked"):
        apply(tmp_path, edits.EDITS)


def test_every_edit_says_why_and_changes_something() -> None:
    for edit in edits.EDITS:
        assert edit.why
        if isinstance(edit, Edit):
            assert edit.old != edit.new


def test_the_program_reports_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    released(tmp_path)
    assert edits.main([str(tmp_path)]) == 0
    assert f"made {len(edits.EDITS)} edits" in capsys.readouterr().out
    assert edits.main([str(tmp_path)]) == 1
    assert edits.main([]) == 2


def installed(site: Path, name: str, release: str) -> None:
    """A package with no more in it than the texts that its edits look for."""
    (site / f"{name}-{release}.dist-info").mkdir(parents=True)
    for edit in installed_edits.EDITS[name]:
        file = site / edit.file
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if file.exists() else ""
        body = "    pass\n" if name == "torchvision" else ""
        file.write_text(f"{before}{edit.old}{body}")


def test_torchvision_is_edited_once_and_no_other_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(tmp_path, "torchvision", "0.28.0")
    assert installed_edits.main([str(tmp_path)]) == 0
    file = tmp_path / "torchvision/extension.py"
    edited = file.read_text()
    assert 'define("nms(' in edited
    compile(edited, file.name, "exec")
    assert installed_edits.main([str(tmp_path)]) == 1
    assert "no torchvision-0.28.0 as it was released" in capsys.readouterr().err
    assert file.read_text() == edited


def test_other_releases_and_packages_that_are_not_named_stay(tmp_path: Path) -> None:
    installed(tmp_path, "torchvision", "0.25.0")
    assert installed_edits.main([str(tmp_path)]) == 0
    assert "_declared" not in (tmp_path / "torchvision/extension.py").read_text()
    installed(tmp_path, "keras", "3.15.1")
    assert installed_edits.main([str(tmp_path), "torchvision"]) == 0
    assert "__getattr__" not in (tmp_path / "keras/wrappers/__init__.py").read_text()


def test_keras_imports_scikit_learn_only_with_its_wrappers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "keras", "3.15.1")
    assert installed_edits.main([str(tmp_path)]) == 0
    later = tmp_path / "keras/src/wrappers/sklearn_wrapper.py"
    names = ("SKLearnClassifier", "SKLearnRegressor", "SKLearnTransformer")
    later.write_text("".join(f"class {name}: pass\n" for name in names))
    monkeypatch.syspath_prepend(tmp_path)
    wrappers = importlib.import_module("keras.wrappers")
    assert "keras.src.wrappers.sklearn_wrapper" not in sys.modules
    assert set(names) <= set(dir(wrappers))
    scope: dict[str, object] = {}
    exec("from keras.wrappers import *", scope)
    assert set(names) <= set(scope)
    inner = importlib.import_module("keras.src.wrappers")
    assert wrappers.SKLearnRegressor is inner.SKLearnRegressor
    with pytest.raises(AttributeError, match=r"keras\.wrappers.*SKLearn'"):
        _ = wrappers.SKLearn
    for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
        monkeypatch.delitem(sys.modules, name)


def test_the_edited_releases_are_those_of_the_lock() -> None:
    lock = catalogue.HERE / catalogue.image("cpu").lock
    locked = {pin.name: pin.version for pin in lockfile.read(lock)}
    assert {name: locked[name] for name in installed_edits.EDITS} == installed_edits.RELEASES
