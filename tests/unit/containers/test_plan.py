"""What a build will make: keys, places, the record beside an image, the steps that are needed."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from containers import (
    append_trainers,
    base_image,
    build_plan,
    build_record,
    build_steps,
    image_catalogue,
)
from containers.apptainer import Apptainer
from containers.build_folders import BuildFolders
from containers.build_modes import Mode
from containers.build_plan import BuildPlan, Revision
from containers.builder import Builder
from runners.core import atomic, digest

MODE = Mode("fakeroot with subordinate ids", ("--fakeroot",), "", True)
REVISION = Revision("1", "abc", 1700000000)


def make(tmp_path: Path, **changes: object) -> BuildPlan:
    folders = BuildFolders(tmp_path / "cache", tmp_path / "work", tmp_path / "images")
    image = image_catalogue.image("cpu")
    output = folders.images / "horovod_cpu.sif"
    made = BuildPlan(image, None, folders, output, REVISION)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the checkout's inputs that a test may change."""
    copy = tmp_path / "checkout"
    for name in ("containers", "recipes"):
        shutil.copytree(image_catalogue.CHECKOUT / name, copy / name)
    monkeypatch.setattr(build_plan, "HERE", copy / "containers")
    monkeypatch.setattr(image_catalogue, "HERE", copy / "containers")
    monkeypatch.setattr(build_plan, "CHECKOUT", copy)
    return copy


def test_a_key_depends_on_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    both = [tmp_path / "a", tmp_path / "b"]
    first = digest.of_files(both, tmp_path)
    assert digest.of_files(reversed(both), tmp_path) == first
    (tmp_path / "b").write_text("3")
    assert digest.of_files(both, tmp_path) != first


def results(made: BuildPlan) -> dict[str, str]:
    return {
        "wheels": made.wheels.name,
        "horovod": made.horovod.name,
        "environment": made.environment.name,
        "image": made.key,
    }


CHANGES = {
    "recipes/torch_mnist.py": {"image"},
    "recipes/torch_mnist.toml": {"image"},
    "containers/horovod_image/selftest.py": {"environment", "image"},
    "containers/horovod_cpu.slim": {"environment", "image"},
    "containers/installed_edits.py": {"environment", "image"},
    "containers/append_trainers.py": {"image"},
    "containers/sif_write.py": {"image"},
    "containers/horovod_cpu.def": {"environment", "image"},
    "containers/horovod/edits.py": {"horovod", "environment", "image"},
    "containers/horovod/src/bfloat16.h": {"horovod", "environment", "image"},
    "containers/horovod/src/waiting.toml": {"horovod", "environment", "image"},
    "containers/horovod_wheel.def": {"horovod", "environment", "image"},
    "containers/build.py": set(),
    "containers/builder.py": set(),
}


@pytest.mark.parametrize("file", CHANGES)
def test_a_change_remakes_what_depends_on_it_and_nothing_else(
    copied: Path, tmp_path: Path, file: str
) -> None:
    before = results(make(tmp_path))
    with (copied / file).open("a") as changed:
        changed.write("\n# changed\n")
    after = results(make(tmp_path))
    assert {name for name in before if before[name] != after[name]} == CHANGES[file]


def test_what_the_trainers_share_enters_the_image_in_its_folder(
    copied: Path, tmp_path: Path
) -> None:
    before = results(make(tmp_path))
    (copied / "recipes" / "shared").mkdir()
    (copied / "recipes" / "shared" / "__init__.py").touch()
    after = results(make(tmp_path))
    assert {name for name in before if before[name] != after[name]} == {"image"}
    append_trainers.stage(copied, tmp_path / "stage")
    there = tmp_path / "stage" / "trainers" / "recipes"
    assert (there / "shared" / "__init__.py").is_file()
    assert (there / "torch_mnist.toml").is_file()


@pytest.mark.parametrize("name", ["torch", "horovod"])
def test_another_wheel_renews_everything(copied: Path, tmp_path: Path, name: str) -> None:
    before = results(make(tmp_path))
    path = copied / "containers" / "horovod_cpu.lock"
    path.write_text(re.sub(rf"({name}==.*sha256:)...", r"\g<1>abc", path.read_text(), count=1))
    after = results(make(tmp_path))
    assert all(before[name] != after[name] for name in before)


def test_another_package_of_the_base_renews_what_is_built_on_it(
    copied: Path, tmp_path: Path
) -> None:
    before = results(make(tmp_path))
    path = copied / "containers" / "horovod_cpu.lock"
    path.write_text(re.sub(r"(# debian libc6)=.*", r"\1=9", path.read_text()))
    after = results(make(tmp_path))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"environment", "image"}


def test_of_the_revision_only_dirty_matters(tmp_path: Path) -> None:
    key = make(tmp_path).key
    assert make(tmp_path, revision=replace(REVISION, commit="def")).key == key
    assert make(tmp_path, revision=replace(REVISION, commit="abc-dirty")).key != key
    assert make(tmp_path, revision=replace(REVISION, version="2")).key != key


def test_what_is_packed_stays_until_another_level_is_asked_for(tmp_path: Path) -> None:
    made = make(tmp_path)
    assert made.packed_level == 6
    strong = make(tmp_path, level=19)
    strong.environment.parent.mkdir(parents=True)
    strong.environment.write_bytes(b"packed")
    assert "-Xcompression-level 19 " in strong.compression
    for packed in (make(tmp_path), strong):
        assert (packed.packed_level, packed.environment) == (19, strong.environment)
        assert "environment, with its test" not in needed(packed)
    asked = make(tmp_path, level=6)
    assert asked.packed_level == 6
    assert "environment, with its test" in needed(asked)
    asked.environment.write_bytes(b"packed")
    assert make(tmp_path).environment == asked.environment


def test_an_image_is_current_at_any_level_or_at_the_one_that_is_asked_for(tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    image.write_bytes(b"1")
    build_record.write(image, make(tmp_path, level=19).key, level=19)
    for level, current in ((None, True), (19, True), (6, False)):
        made = make(tmp_path, level=level)
        assert build_record.is_current(image, made.key, made.level) is current


def test_a_registrys_base_needs_no_file_and_changes_the_keys(tmp_path: Path) -> None:
    made = make(tmp_path, base=base_image.find("debian:12", "amd64"))
    assert made.base_key(made.definition) == "docker:debian:12"
    assert made.key != make(tmp_path).key


def test_a_record_holds_until_the_image_is_replaced(tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    assert build_record.read(image) is None
    image.write_bytes(b"1")
    build_record.write(image, "key")
    found = build_record.read(image)
    assert found is not None
    assert found.key == "key"
    image.write_bytes(b"22")
    assert build_record.read(image) is None


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    image.write_bytes(b"1")
    for text in ("", "[]", '{"key": 1, "other": 2}'):
        build_record.path(image).write_text(text)
        assert build_record.read(image) is None


def builder(made: BuildPlan) -> Builder:
    archive = {"RUNNER_DEBIAN_MIRROR": "http://m.example/debian"}
    return Builder(made, Apptainer(MODE, archive, made.folders.temporary))


def needed(made: BuildPlan) -> list[str]:
    return [step.name for step in builder(made).steps() if step.needed]


def test_everything_is_made_the_first_time(tmp_path: Path) -> None:
    assert len(needed(make(tmp_path))) == 6
    assert len(needed(make(tmp_path, base=base_image.find("debian:12", "amd64")))) == 4


def test_an_edited_trainer_renews_the_image_alone(tmp_path: Path) -> None:
    made = make(tmp_path)
    made.horovod.mkdir(parents=True)
    made.environment.write_bytes(b"packed")
    assert needed(made) == ["image: environment and trainers"]


def test_packages_are_installed_once_where_horovod_is_compiled_too(tmp_path: Path) -> None:
    made = make(tmp_path)
    runs = builder(made)
    commands = {step.name: step.command() for step in runs.steps()}
    assert f"{runs.installed}:/opt/horovod" in " ".join(commands["Horovod wheel"])
    assert runs.environment_build(runs.installed).files["installed-packages"] == runs.installed
    assert "installed-packages" not in runs.environment_build().files


def test_a_wheel_alone_keeps_no_packages(tmp_path: Path) -> None:
    (compiling,) = [s for s in builder(make(tmp_path)).wheel_steps() if s.name == "Horovod wheel"]
    assert "/opt/horovod" not in " ".join(compiling.command())


def test_no_path_of_the_building_machine_is_kept_in_the_image(tmp_path: Path) -> None:
    asked = builder(make(tmp_path)).environment_build()
    assert asked.build_args["from"] == "base"
    assert str(tmp_path) not in " ".join(asked.build_args.values())


def test_a_dry_run_shows_each_command_that_would_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_DEBIAN_MIRROR", "http://m.example/debian")
    made = make(tmp_path)
    runtime = Apptainer(MODE, dict(os.environ), made.folders.temporary)
    text = build_steps.outline(Builder(made, runtime).steps())
    assert text.count(" mmdebstrap --mode=root ") == 2
    assert text.count("\napptainer build --fakeroot ") == 2
    made.horovod.mkdir(parents=True)
    made.environment.write_bytes(b"packed")
    assert build_steps.outline(Builder(made, runtime).steps()).count("nothing to do") == 5


def test_places_of_an_ordinary_user(tmp_path: Path) -> None:
    given = {"HOME": "/home/u", "RUNNER_SCRATCH": "/fast", "SCRATCH": "/slow"}
    folders = BuildFolders.locate(given)
    assert folders.images == Path("/fast/images")
    assert folders.wheels == Path("/fast/horovod-runner/wheels")
    assert folders.temporary == Path("/fast/horovod-runner/tmp")
    assert BuildFolders.locate({"SCRATCH": "/slow"}).images == Path("/slow/images")
    only_cache = BuildFolders.locate({"RUNNER_CACHE": "/cache"})
    assert (only_cache.images, only_cache.builds) == (Path("/cache/images"), Path("/cache/builds"))


def test_a_download_shows_how_much_of_it_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "wheels" / "cpu"
    with atomic.new_folder(folder) as part:
        (part / "a.whl").write_bytes(b"a" * 3_000_000)
        (tmp_path / "wheels" / f"{part.name}-pip").mkdir()
        (tmp_path / "wheels" / f"{part.name}-pip" / "a.whl").write_bytes(b"a" * 3_000_000)
        (tmp_path / "wheels" / f"{part.name}-pip" / "b.whl").write_bytes(b"b" * 1_000_000)
        assert build_steps.fetched(folder) == "4.0 MB fetched"


def stopped(context: AbstractContextManager[Path]) -> None:
    with context as part:
        (part / "half").mkdir(parents=True)
        raise KeyError


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o002, 0o755)])
def test_a_folder_is_as_private_as_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        with atomic.new_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == mode


def test_a_file_or_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write_text(path, "whole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    with pytest.raises(KeyError):
        stopped(atomic.new_folder(tmp_path / "folder"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_results_that_no_build_used_for_a_month_are_removed(tmp_path: Path) -> None:
    old, used, recent, foreign = (tmp_path / n for n in ("base-a", "base-b", "horovod-c", "x"))
    for path in (old, used, recent, foreign):
        path.mkdir()
        age = 0 if path == recent else 40 * 86400
        os.utime(path, (time.time() - age, time.time() - age))
    assert build_record.forget(tmp_path, [used, tmp_path / "environment-gone"]) == [old]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base-b", "horovod-c", "x"]
    assert build_record.forget(tmp_path, []) == []
