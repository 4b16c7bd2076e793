"""Images for Arm: their lock, what is not there for it, and whether they can be built here."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from click.testing import CliRunner

from containers import build_modes, build_plan, debian, image_catalogue, lockfile, pip, slim, wheels
from containers.build_plan import BuildOptions
from runners.cli import cli
from runners.core import machine
from runners.core.errors import UsageError
from runners.core.model import ImageInfo
from runners.images import local_image

from .. import sentences


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An x86-64 machine, and an ordinary user's folders."""
    for module in (machine, build_plan, build_modes):
        name = "machine" if module is build_plan else "architecture"
        monkeypatch.setattr(module, name, lambda: "amd64")
    monkeypatch.setattr(debian, "available", lambda: True)
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path))


def test_an_image_for_other_machines_is_another_image() -> None:
    ours, arm = (
        build_plan.make("cpu", BuildOptions()),
        build_plan.make("cpu", BuildOptions(arch="arm64")),
    )
    assert ours.lock.name == "horovod_cpu.lock"
    assert arm.lock.name == "horovod_cpu.arm64.lock"
    assert (ours.output.name, arm.output.name) == ("horovod_cpu.sif", "horovod_cpu.arm64.sif")
    assert not {*ours.results(), ours.wheels} & {*arm.results(), arm.wheels}
    assert "--arch=arm64" in wheels.command(arm.image, pip.PackageSource(), Path("w"))
    assert pip.target("3.11", 36, "aarch64")[-1] == "--platform=manylinux1_aarch64"


def test_the_lock_for_arm_is_for_arm() -> None:
    lock = build_plan.make("cpu", BuildOptions(arch="arm64")).lock
    pins = {pin.name: pin.version for pin in lockfile.read(lock)}
    assert pins["tensorflow"] == "2.21.0"
    assert "+cpu" not in pins["torch"]
    assert not [name for name in pins if name.startswith("nvidia-")], "without CUDA"
    compiled = {pin.name for pin in lockfile.against(lock)}
    assert {"torch", "tensorflow", "numpy"} <= compiled


def test_the_base_for_arm_is_of_arms_packages() -> None:
    wanted = ("http://x/debian", "bookworm", ("main",), ("python3",), Path("o"))
    assert not [word for word in debian.argv(*wanted) if word.startswith("--arch")]
    assert "--architectures=arm64" in debian.argv(*wanted, architecture="arm64")


def test_no_definition_names_an_architecture() -> None:
    for path in image_catalogue.HERE.glob("*.def"):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in ("x86_64", "amd64", "aarch64", "arm64") if word in text], path


def test_what_there_is_not_is_said() -> None:
    others = "runner build --from docker://nvcr.io/nvidia/pytorch:25.01-py3 --horovod"
    with sentences.raises("image-not-for-architecture", others):
        image_catalogue.image("cpu", "ppc64le")
    with sentences.raises("image-not-for-architecture", "runner build gpu13"):
        image_catalogue.image("gpu", "arm64")


ENTRY = "enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: F\n"


@pytest.mark.parametrize(
    ("entry", "works"),
    [
        (ENTRY, True),
        (ENTRY.replace("enabled", "disabled"), False),
        (ENTRY.replace("64", ""), False),
    ],
)
def test_a_machine_without_emulation_refuses_before_it_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entry: str, works: bool
) -> None:
    monkeypatch.setattr(build_modes, "BINFMT", tmp_path)
    (tmp_path / "qemu-x").write_text(entry)
    assert not build_modes.needs_emulation("amd64")
    if works:
        assert build_modes.needs_emulation("arm64")
        return
    with sentences.raises("emulation-missing", build_modes.EMULATION):
        build_modes.needs_emulation("arm64")


@pytest.mark.parametrize("words", [["my.def"], ["--from", "a.sif", "--horovod"], ["env", "/tmp/x"]])
def test_arch_is_for_our_images(words: list[str]) -> None:
    done = CliRunner().invoke(cli, ["build", *words, "--arch", "arm64"])
    assert isinstance(done.exception, UsageError) or done.exit_code == 2
    assert "--arch" in f"{done.exception}{done.output}"


def test_lines_of_a_slim_list_for_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "list").write_text("x86_64 drop a # x\naarch64 drop b # y\ndrop c # z\n")
    for name in "abc":
        (tmp_path / "site" / name).mkdir(parents=True)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert slim.main([str(tmp_path / "list"), str(tmp_path / "site")]) == 0
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["a"]


# The image of a job, by its nodes.


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images whose file says what they are for; broken.sif is none."""
    for name, kind in (
        ("a.sif", "amd64"),
        ("a.arm64.sif", "arm64"),
        ("b.sif", "amd64"),
        ("c.sif", "amd64"),
    ):
        (tmp_path / name).write_text(kind)
    (tmp_path / "c.arm64.sif").write_text("amd64")
    monkeypatch.setattr(local_image, "on_disk", on_disk)
    return tmp_path


def on_disk(name: str) -> ImageInfo:
    path = Path(name)
    if not path.exists():
        raise local_image.ImageMissing(name)
    return ImageInfo(path, architecture=path.read_text())


@pytest.mark.parametrize(
    ("asked", "wanted", "found"),
    [
        ("a.sif", "arm64", "a.arm64.sif"),
        ("a.arm64.sif", "amd64", "a.sif"),
        ("a.sif", "amd64", "a.sif"),
        ("a.sif", "", "a.sif"),
        ("b.sif", "arm64", "b.sif"),
        ("c.sif", "arm64", "c.sif"),
    ],
)
def test_the_image_is_that_for_the_nodes(images: Path, asked: str, wanted: str, found: str) -> None:
    name = str(images / asked)
    image, why = local_image.for_nodes(name, on_disk(name), wanted)
    assert image.path.name == found
    assert why == (f"the nodes are {wanted}, for which there is {found}" if found != asked else "")
