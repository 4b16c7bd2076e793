"""What a build starts from and where its image goes; and when `--or-build` builds."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from containers import build_definition, build_plan, build_record
from containers.build_plan import BuildOptions
from containers.build_steps import BuildProgress
from runners.core import machine, sif
from runners.core.errors import NotFound, NotVerified, RunnerError, SystemFault
from runners.images import build_and_record, build_request, prebuilt_list
from runners.images.build_request import BuildKind, ImageRequest

from .. import sentences
from ..core.test_sif import make_sif
from ..listener import Told
from ..programs import program

DEFINITION = "Bootstrap: docker\nFrom: x\n"
PYTHON = json.dumps({"python": "/usr/bin/python3", "pip": "24.0", "packages": {}})


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image with a Python in the current folder, which a container runtime can ask."""
    program(tmp_path / "bin" / "apptainer", f"echo '{PYTHON}'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    make_sif(tmp_path / "torch.sif", {"torch.version": "2.3"})
    for name in ("my.def", "extra.txt"):
        (tmp_path / name).write_text(DEFINITION)
    return "torch.sif"


@pytest.mark.parametrize(
    ("option", "variable", "level"), [(None, "", 6), (None, "3", 3), (19, "3", 19)]
)
def test_the_level_of_an_image_from_another(
    base: str, option: int | None, variable: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_PACK_LEVEL", variable)
    options = BuildOptions(level=option)
    request = ImageRequest(BuildKind.ON_TOP, "", base, Path("my.def"), options=options)
    assert build_and_record.definition_of(request).level == level


def test_an_image_for_another_architecture_is_no_base(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sif, "architecture", lambda objects: "ppc64")
    with sentences.raises("base-architecture"):
        build_and_record.find_base(base)


def test_an_unpacked_image_is_no_base(base: str) -> None:
    Path("unpacked/.singularity.d").mkdir(parents=True)
    with sentences.raises("base-is-folder"):
        build_and_record.find_base("unpacked")


def test_without_an_output_it_is_named_after_what_is_added(base: str, tmp_path: Path) -> None:
    on_top = ImageRequest(BuildKind.ON_TOP, origin=base, definition=Path("my.def"))
    added = ImageRequest(BuildKind.ADDED, origin=base, requirements=Path("extra.txt"))
    made = {
        "my.sif": build_and_record.definition_of(on_top),
        "torch-extra.sif": build_and_record.definition_of(added),
    }
    assert {name: definition.output for name, definition in made.items()} == {
        name: tmp_path / name for name in made
    }
    plain = build_and_record.definition_of(replace(on_top, origin=""))
    assert (plain.output, plain.base) == (tmp_path / "my.sif", None)


@pytest.mark.parametrize(
    ("output", "id"),
    [
        ("torch.sif", "output-is-base"),
        ("linked.sif", "output-is-base"),
        ("bin", "output-is-folder"),
    ],
)
def test_an_output_that_cannot_be_written(base: str, output: str, id: str) -> None:
    Path("linked.sif").symlink_to("torch.sif")
    options = BuildOptions(output=Path(output))
    request = ImageRequest(BuildKind.ON_TOP, "", base, Path("my.def"), options=options)
    with sentences.raises(id):
        build_and_record.build_image(request, BuildProgress())


def test_an_error_of_the_system_names_the_file_and_where_there_is_room(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/scratch/x")

    monkeypatch.setattr(build_definition, "build", full)
    request = ImageRequest(BuildKind.DEFINITION, definition=Path("my.def"))
    with sentences.raises("build-system-error"):
        build_and_record.build_image(request, BuildProgress())


@pytest.mark.parametrize(
    ("target", "origin", "given", "kind"),
    [
        ("cpu", None, {}, BuildKind.PACKAGED),
        ("my.def", None, {"given": "--build-arg"}, BuildKind.DEFINITION),
        ("folder/def", None, {}, BuildKind.DEFINITION),
        (None, "a.sif", {"horovod": "--horovod"}, BuildKind.ADDED),
        (None, "a.sif", {"def_file": "--def", "given": "--build-arg"}, BuildKind.ON_TOP),
    ],
)
def test_what_is_built_follows_from_the_options(
    target: str | None, origin: str | None, given: dict[str, str], kind: BuildKind
) -> None:
    assert build_request.kind_of(target, origin, given) is kind
    if kind is not BuildKind.PACKAGED:
        with sentences.raises("build-option-of-other-kind"):
            build_request.kind_of(target, origin, {**given, "frozen": "--frozen"})


# runner pull cpu --or-build


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A source of images, and no image of this checkout."""
    monkeypatch.setenv("RUNNER_IMAGES_SOURCE", "oras://example.org/kit")
    monkeypatch.setenv("RUNNER_SITE", "none")
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> None:
        raise error

    monkeypatch.setattr(prebuilt_list, "find", find)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("error", [SystemFault("it is down"), NotFound("it is behind")])
def test_what_cannot_be_pulled_is_to_be_built(
    error: RunnerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(error, monkeypatch)
    told = Told()
    assert build_and_record.pull_unless_current("cpu", told) is None
    assert told.texts == [str(error), "building instead"]


@pytest.mark.usefixtures("source")
def test_a_wrong_digest_is_no_reason_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    error = NotVerified("altered")
    fail_with(error, monkeypatch)
    with pytest.raises(NotVerified) as caught:
        build_and_record.pull_unless_current("cpu", Told())
    assert caught.value is error


@pytest.mark.usefixtures("source")
def test_a_current_build_is_not_replaced_by_a_prebuilt_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_with(SystemFault("it was asked"), monkeypatch)
    made = build_plan.make("cpu", BuildOptions())
    made.output.parent.mkdir()
    made.output.write_text("an image")
    build_record.write(made.output, made.key)
    told = Told()
    assert build_and_record.pull_unless_current("cpu", told) is None
    assert told.texts == []


def test_what_is_not_pulled_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pulled, built = (
        build_and_record.Built(tmp_path / "pulled.sif"),
        build_and_record.Built(tmp_path / "built.sif"),
    )
    monkeypatch.setattr(build_and_record, "build_image", lambda request, _: built)
    for path, image in ((pulled.output, pulled), (None, built)):
        monkeypatch.setattr(build_and_record, "pull_unless_current", lambda *_, path=path: path)
        assert (
            build_and_record.pull_or_build(
                "cpu", machine.architecture(), (), Told(), BuildProgress()
            )
            == image
        )


def test_build_arguments_are_names_and_values() -> None:
    assert build_request.arguments(["a=1", "b=c=d", "e="]) == {"a": "1", "b": "c=d", "e": ""}
    with sentences.raises("build-arg-malformed"):
        build_request.arguments(["a"])
