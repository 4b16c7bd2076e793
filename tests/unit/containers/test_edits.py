"""The edits of Horovod's source and of installed packages, on small trees."""

from __future__ import annotations

import importlib
import sys
import tarfile
from pathlib import Path

import pytest

from containers import horovod_source, image_catalogue, installed_edits, lockfile, wheels
from containers.horovod import edits
from containers.horovod.edit import EditError, NewFile, Row, apply
from containers.pip import PackageSource
from runners.core.errors import RunnerError
from tests.cluster.state import State

from .. import sentences

IN_PLACE = Row("a/one.cc", "old", "because", instead="new")
INCLUDE = Row("a/one.cc", "#include <map>", "because", after="#include <string>")
LEFT = Row("two.txt", "left", "because", instead="right")
ONE = "#include <map>\nvoid f() {\n  old();\n}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.cc").write_text(ONE)
    (tmp_path / "two.txt").write_text("left")
    return tmp_path


def test_rows_of_one_file_add_up(tree: Path) -> None:
    assert apply(tree, (IN_PLACE, INCLUDE, LEFT)) == ["a/one.cc", "two.txt"]
    expected = "#include <map>\n#include <string>\nvoid f() {\n  new();\n}\n"
    assert (tree / "a" / "one.cc").read_text() == expected
    assert (tree / "two.txt").read_text() == "right"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row("", "old", "", before="if (a)\n  b();"), "  if (a)\n    b();\n  old();\n"),
        (Row("", "ol", "", after="a();\n\nb();"), "  old();\n  a();\n\n  b();\n"),
        (Row("", "old();", "", instead=""), "  \n"),
        (Row("", "old", "", before="a();", instead="b"), "  a();\n  b();\n"),
        (Row("", "{\n  old", "", after="a();"), "  old();\na();\n"),
    ],
)
def test_lines_are_indented_like_the_anchors_line(row: Row, expected: str) -> None:
    assert row.edited(ONE) == ONE.replace("  old();\n", expected)


@pytest.mark.parametrize("text", ["left", "\nleft", "left\n"])
def test_an_anchor_may_be_the_first_or_the_last_line(text: str) -> None:
    row = Row("", "left", "", before="above", after="below")
    assert row.edited(text) == text.replace("left", "above\nleft\nbelow")


@pytest.mark.parametrize("anchor", ["o", "older"])  # twice, and not at all
def test_an_anchor_that_is_not_there_once_is_refused_by_file_and_row(
    tree: Path, anchor: str
) -> None:
    wrong = Row("a/one.cc", anchor, "because", instead="new")
    with sentences.refuses(EditError) as caught:
        apply(tree, (LEFT, wrong))
    assert str(caught.value).startswith("a/one.cc, row 2: ")
    assert (tree / "two.txt").read_text() == "left"


def test_a_missing_file_is_named_with_its_row(tree: Path) -> None:
    with sentences.refuses(EditError):
        apply(tree, (LEFT, Row("three.txt", "x", "because", instead="y")))


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "ours.h").write_text("struct s;\n")
    new = NewFile("new.h", tmp_path / "ours.h", "because")
    apply(tmp_path, (), (new,))
    assert (tmp_path / "new.h").read_text() == "struct s;\n"
    with sentences.refuses(EditError):
        apply(tmp_path, (), (new,))


@pytest.fixture(scope="module")
def archives() -> Path:
    """A folder with the released archive: what a build has fetched, or fetched once by pip."""
    lock = image_catalogue.HERE / image_catalogue.image("cpu").lock
    (pin,) = (pin for pin in lockfile.build(lock) if pin.name == "horovod")
    cache = State.locate().cache
    folders = sorted(cache.glob(f"wheels/*/horovod-{pin.version}.tar.gz"))
    if folders:
        return folders[0].parent
    kept = cache / f"horovod-{pin.sha256[:16]}"
    if not kept.exists():
        try:
            wheels.fetch_archives([pin], PackageSource(), kept)
        except RunnerError as error:
            pytest.skip(f"Horovod's archive cannot be fetched here: {error.what}")
    return kept


def test_our_rows_fit_the_released_source_once_and_not_twice(
    archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(next(archives.glob("horovod-*.tar.gz"))) as archive:
        archive.extractall(tmp_path)  # noqa: S202  its hash is in the lock
    (tree,) = tmp_path.iterdir()
    assert edits.main([str(tree)]) == 0
    assert f"{len(edits.ROWS)} rows and {len(edits.NEW_FILES)} new files" in capsys.readouterr().out
    for new_file in edits.NEW_FILES:
        assert (tree / new_file.file).read_bytes() == new_file.source.read_bytes()
    assert edits.main([str(tree)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"edits.py: {edits.ROWS[0].file}, row 1: the anchor")
    assert "freshly unpacked horovod-0.28.1" in said


def test_the_program_needs_a_tree() -> None:
    assert edits.main([]) == 2


def test_another_release_is_a_fault_of_the_system(tmp_path: Path) -> None:
    released = tmp_path / "horovod-0.99"
    released.mkdir()
    with tarfile.open(tmp_path / "horovod-0.99.tar.gz", "w:gz") as archive:
        archive.add(released, arcname="horovod-0.99")
    with sentences.raises("horovod-source-differs"):
        horovod_source.unpack(tmp_path, tmp_path / "source")


def test_every_row_says_why_and_changes_something() -> None:
    for row in edits.ROWS:
        assert row.why
        assert row.before or row.after or row.instead not in (None, row.anchor)


def test_all_of_our_code_enters_horovod_and_is_used() -> None:
    """Each file of src/ is copied, and a row or another file includes or compiles it."""
    ours = {new_file.source for new_file in edits.NEW_FILES}
    code = {path for path in edits.SRC.iterdir() if path.suffix != ".toml"}
    assert {path for path in ours if path.suffix != ".py"} == code
    added = "".join(f"{row.before}{row.after}{row.instead or ''}\n" for row in edits.ROWS)
    for source in ours:
        name = f"/{source.name}" if source.suffix == ".cc" else source.stem
        others = "".join(path.read_text() for path in ours if path.stem != source.stem)
        assert name in added + others, source.name


# What the text of an edit continues, and what continues it.
START = {"torchvision": "if False:\n\n    def _has_ops():\n"}
END = {"torchvision": "\n    pass"}


def installed(site: Path, name: str, release: str) -> None:
    """A package with no more in it than the texts that its edits look for."""
    (site / f"{name}-{release}.dist-info").mkdir(parents=True)
    for row in installed_edits.EDITS[name]:
        file = site / row.file
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if file.exists() else START.get(name, "")
        file.write_text(f"{before}{row.anchor}{END.get(name, '')}\n")


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
    assert "torchvision-0.28.0" in sentences.said(capsys.readouterr().err)
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
    lock = image_catalogue.HERE / image_catalogue.image("cpu").lock
    locked = {pin.name: pin.version for pin in lockfile.read(lock)}
    assert {name: locked[name] for name in installed_edits.EDITS} == installed_edits.RELEASES
