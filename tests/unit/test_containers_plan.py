"""What a build will make: keys, places, the record beside an image, the steps that are needed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from containers import catalogue, chain, keys, pip, plan, record, steps, toolbox
from containers.errors import Refused
from containers.places import Places, require_space
from containers.plan import Base, Plan

DEFINITION = """\
Bootstrap: {{ bootstrap }}

%arguments
    bootstrap=docker
    packages=python3 openmpi-bin
%post
    other=1
"""


def make(tmp_path: Path, **changes: object) -> Plan:
    places = Places(tmp_path / "cache", tmp_path / "work", tmp_path / "images")
    image = catalogue.image("cpu")
    output = places.images / "horovod_cpu.sif"
    made = Plan(image, Base("debian"), places, output, version="1", revision="abc")
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the checkout's inputs that a test may change."""
    copy = tmp_path / "checkout"
    for name in ("containers", "recipes"):
        shutil.copytree(catalogue.CHECKOUT / name, copy / name)
    monkeypatch.setattr(plan, "HERE", copy / "containers")
    monkeypatch.setattr(catalogue, "HERE", copy / "containers")
    monkeypatch.setattr(plan, "CHECKOUT", copy)
    return copy


def test_arguments_are_read_from_their_section_alone() -> None:
    assert keys.arguments(DEFINITION) == {
        "bootstrap": "docker",
        "packages": "python3 openmpi-bin",
    }


def test_a_definition_without_packages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.def").write_text("Bootstrap: docker\n")
    with pytest.raises(Refused, match=r"x\.def has no line 'packages="):
        keys.packages(tmp_path / "x.def")


def test_a_key_depends_on_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    both = [tmp_path / "a", tmp_path / "b"]
    first = keys.of_files(both, tmp_path)
    assert keys.of_files(reversed(both), tmp_path) == first
    (tmp_path / "b").write_text("3")
    assert keys.of_files(both, tmp_path) != first


def results(made: Plan) -> dict[str, str]:
    return {
        "wheels": made.wheels.name,
        "horovod": made.horovod.name,
        "environment": made.environment,
        "image": made.key,
    }


CHANGES = {
    "recipes/torch_mnist.py": {"image"},
    "recipes/torch_mnist.toml": {"image"},
    "containers/horovod_image/selftest.py": {"image"},
    "containers/horovod_cpu.def": {"environment", "image"},
    "containers/horovod/edits.py": {"horovod", "environment", "image"},
    "containers/horovod_wheel.def": {"horovod", "environment", "image"},
    "containers/horovod_build.lock": {"wheels", "horovod", "environment", "image"},
    "containers/horovod_cpu.lock": {"wheels", "horovod", "environment", "image"},
    "containers/debian.py": {"horovod", "environment", "image"},
    "containers/build.py": set(),
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


def test_of_the_revision_only_dirty_matters(tmp_path: Path) -> None:
    key = make(tmp_path).key
    assert make(tmp_path, revision="def").key == key
    assert make(tmp_path, revision="abc-dirty").key != key
    assert make(tmp_path, version="2").key != key


def test_a_registrys_base_needs_no_file_and_changes_the_keys(tmp_path: Path) -> None:
    made = make(tmp_path, base=Base("docker", "debian:12"))
    assert made.base_key(made.definition) == "docker:debian:12"
    assert made.key != make(tmp_path).key


def test_a_record_holds_until_the_image_is_replaced(tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    assert record.read(image) is None
    image.write_bytes(b"1")
    record.write(image, record.Record("key", "environment"))
    found = record.read(image)
    assert found is not None
    assert (found.key, found.environment) == ("key", "environment")
    image.write_bytes(b"22")
    assert record.read(image) is None


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    image.write_bytes(b"1")
    for text in ("", "[]", '{"key": 1, "other": 2}'):
        record.path(image).write_text(text)
        assert record.read(image) is None


def needed(made: Plan) -> list[str]:
    builder = steps.Builder(made, {})
    return [step.name for step in chain.steps(made, builder, pip.Source()) if step.needed]


def test_everything_is_made_the_first_time(tmp_path: Path) -> None:
    assert len(needed(make(tmp_path))) == 5
    assert len(needed(make(tmp_path, base=Base("docker")))) == 3


def test_an_edited_trainer_renews_the_image_alone(tmp_path: Path) -> None:
    made = make(tmp_path)
    made.horovod.mkdir(parents=True)
    made.output.parent.mkdir()
    made.output.write_bytes(b"image")
    record.write(made.output, record.Record("another key", made.environment))
    assert needed(made) == ["image, with its test"]
    command = steps.Builder(made, {}).image_argv(tmp_path / "part")
    assert "bootstrap=localimage" in command
    assert "from=earlier.sif" in command
    assert steps.Builder(made, {}).image_files()["earlier.sif"] == made.output


def test_no_path_of_the_building_machine_is_kept_in_the_image(tmp_path: Path) -> None:
    command = steps.Builder(make(tmp_path), {}).image_argv(tmp_path / "part")
    given = [after for word, after in zip(command, command[1:]) if word == "--build-arg"]
    assert "from=base.tar" in given
    assert str(tmp_path) not in " ".join(given)


def test_places_of_an_ordinary_user(tmp_path: Path) -> None:
    given = {"HOME": "/home/u", "RUNNER_SCRATCH": "/fast", "SCRATCH": "/slow"}
    places = Places.locate(given)
    assert places.images == Path("/fast/images")
    assert places.wheels == Path("/fast/horovod-runner/wheels")
    assert places.temporary == Path("/fast/horovod-runner/tmp")
    assert Places.locate({"SCRATCH": "/slow"}).images == Path("/slow/images")
    only_cache = Places.locate({"RUNNER_CACHE": "/cache"})
    assert (only_cache.images, only_cache.builds) == (Path("/cache/images"), Path("/cache/builds"))


def test_too_little_space_is_refused_with_numbers_and_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"has [\d.]+ GB free.*\n.*RUNNER_SCRATCH=") as caught:
        require_space(tmp_path, 10**18)
    assert caught.value.exit_code == 2
    require_space(tmp_path, 1)


def test_roots_output_is_in_the_toolboxs_scratch() -> None:
    given = {"RUNNER_CACHE": "/cache"}
    found = toolbox.on_host(Path("/scratch/ada/x.sif"), given)
    assert found == Path("/cache/cluster/scratch/ada/x.sif")
    with pytest.raises(Refused, match=r"Use /scratch/ada/images/x\.sif"):
        toolbox.on_host(Path("/tmp/x.sif"), given)


def test_root_goes_on_in_the_toolbox() -> None:
    command = toolbox.argv(toolbox.places({"RUNNER_CACHE": "/cache"}), ["cpu", "--base=debian"])
    assert command[2:4] == ["tests.cluster", "toolbox"]
    assert "/cache/builds:/var/cache/horovod-runner/builds:rw" in command
    assert command[-4:] == ["-m", "containers.build", "cpu", "--base=debian"]
