"""Lock files, and what pip is told for them."""

from __future__ import annotations

import json
import platform
import zipfile
from pathlib import Path
from typing import Any

import pytest

from containers import debian, image_catalogue, lock, lockfile, pip
from containers.lockfile import Pin

from .. import sentences
from ..programs import program

SHA = "0123456789abcdef" * 4
TORCH = Pin("torch", "2.13.0+cpu", SHA)


def test_a_lock_is_read_back_as_written() -> None:
    pins, others = [TORCH, Pin("absl-py", "2.5.1", SHA)], [Pin("lightning", "2.6", SHA)]
    text = lockfile.render(pins, others, "a header\nof two lines")
    assert text.startswith("# a header\n# of two lines\nabsl-py==2.5.1 --hash=sha256:0123")
    assert lockfile.parse(text, "x.lock") == [pins[1], pins[0], *others]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_horovod_is_compiled_against_frameworks_and_what_they_require(name: str) -> None:
    found = lockfile.against(image_catalogue.HERE / image_catalogue.image(name).lock)
    names = {pin.name for pin in found}
    assert {"torch", "numpy", "sympy", "tf-keras", "grpcio", "cffi", "setuptools"} <= names
    assert not {"lightning", "jupyterlab", "scikit-learn"} & names


def test_names_are_compared_as_indexes_do() -> None:
    assert lockfile.parse(f"Google_Pasta==1 --hash=sha256:{SHA}", "x")[0].name == "google-pasta"


@pytest.mark.parametrize(
    "line",
    [
        "torch==2.13.0",
        f"torch>=2.13.0 --hash=sha256:{SHA}",
        f"torch==2.13.0 --hash=sha256:{SHA[:-1]}",
        f"torch==2.13.0 --hash=sha256:{SHA} --hash=sha256:{SHA}",
        "-r other.lock",
    ],
)
def test_a_line_that_is_not_pinned_is_refused(line: str) -> None:
    with sentences.raises("lock-line-not-pinned"):
        lockfile.parse(f"# header\n{line}\n", "cpu.lock")


def test_the_parts_of_our_lock_agree_with_each_other() -> None:
    lock = image_catalogue.HERE / image_catalogue.image("cpu").lock
    runtime, build = lockfile.read(lock), lockfile.build(lock)
    names = [pin.name for pin in [*runtime, *build]]
    assert len(names) == len(set(names))
    assert {"torch", "tensorflow-cpu", "tf-keras", "numpy", "scikit-learn"} <= set(names)
    assert "tensorflow" not in names
    assert {"horovod", "cmake"} <= {pin.name for pin in build}
    assert next(pin for pin in runtime if pin.name == "torch").version.endswith("+cpu")


def entry(name: str, version: str) -> dict[str, Any]:
    archive = {"archive_info": {"hashes": {"sha256": SHA}}}
    return {"metadata": {"name": name, "version": version}, "download_info": archive}


def test_pins_come_from_pips_report() -> None:
    (found,) = pip.additions(json.dumps({"install": [entry("Torch", "2.13.0+cpu")]}))
    assert (found.name, found.version, found.sha256) == ("Torch", TORCH.version, TORCH.sha256)


def test_debians_versions_are_comments_to_pip() -> None:
    text = lockfile.render_debian({"debian": {"libc6": "2.36-9", "zlib1g": "1:1.2.13.dfsg-1"}})
    assert lockfile.parse(text, "x.lock") == []
    assert lockfile.DEBIAN.findall(text)[1] == ("debian", "zlib1g", "1:1.2.13.dfsg-1")
    locked = lockfile.debian(image_catalogue.HERE / image_catalogue.image("cpu").lock, "debian")
    assert {"libc6", "libopenmpi3", "binutils"} <= set(locked)
    compiling = lockfile.debian(
        image_catalogue.HERE / image_catalogue.image("cpu").lock, "debian-build"
    )
    assert "libopenmpi-dev" in compiling
    assert "libopenmpi-dev" not in locked


def test_debian_versions_is_reported_by_name_and_refused_when_frozen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.lock"
    path.write_text(lockfile.render_debian({"debian": {"libc6": "1", "gone": "1", "same": "1"}}))
    now = {"libc6": "2", "new": "3", "same": "1"}
    debian.check_versions(now, path, "debian", frozen=False)
    sentences.said(capsys.readouterr().err)
    with sentences.raises("debian-not-as-locked"):
        debian.check_versions(now, path, "debian", frozen=True)
    debian.check_versions({"libc6": "1", "gone": "1", "same": "1"}, path, "debian", frozen=True)


def test_markers_are_those_of_the_machine_that_is_locked_for(tmp_path: Path) -> None:
    """Real pip, a folder of two wheels: that of the machine which this one is not."""
    for name in ("for-arm", "for-others"):
        wheel(tmp_path, name)
    wanted = tmp_path / "x.in"
    arm, others = ('; platform_machine == "aarch64"', '; platform_machine != "aarch64"')
    wanted.write_text(f"for-arm{arm}\nfor-others{others}\n")
    options = ["--no-index", f"--find-links={tmp_path}"]
    here = platform.machine()
    machine, name = ("aarch64", "for-arm") if here != "aarch64" else ("x86_64", "for-others")
    assert [pin.name for pin in lock.resolve(machine, [wanted], options, [])] == [name]


def wheel(folder: Path, name: str) -> None:
    """Write the smallest wheel of that name."""
    module, version = name.replace("-", "_"), "1.0"
    info = f"{module}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as file:
        for path, text in files.items():
            file.writestr(path, text)


def test_the_images_own_python_is_found_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two on PATH and in pyenv's folder, the one on PATH only says that it is not set up."""
    folders = tmp_path / "shims", tmp_path / "versions" / "9.9.1" / "bin"
    for folder, code in zip(folders, (127, 0)):
        program(folder / "python9.9", f"exit {code}")
    monkeypatch.setenv("PATH", str(folders[0]), prepend=":")
    assert lock.interpreter("9.9", tmp_path) == str(folders[1] / "python9.9")
    with sentences.raises("lock-python-missing"):
        lock.interpreter("9.9", tmp_path / "none")


def test_pip_chooses_files_for_the_image_not_for_the_host() -> None:
    options = pip.target("3.11", 36)
    assert options[:2] == ["--python-version=3.11", "--implementation=cp"]
    assert "--platform=manylinux_2_36_x86_64" in options
    assert "--platform=manylinux_2_37_x86_64" not in options  # newer than Debian 12's glibc


def test_the_source_of_wheels(tmp_path: Path) -> None:
    assert pip.PackageSource().options() == []
    assert pip.PackageSource(tmp_path).options() == ["--no-index", f"--find-links={tmp_path}"]
    both = pip.PackageSource(index_url="https://a.example", extra_index_url="https://b.example")
    expected = ["--index-url=https://a.example", "--extra-index-url=https://b.example"]
    assert both.options() == expected
