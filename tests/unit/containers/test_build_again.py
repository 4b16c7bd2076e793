"""Builds that are killed half-way and run again, and two of one image at once.

Whole builds with a stand-in for Apptainer: what is packed is a text.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import image_catalogue

from .. import waiting
from ..programs import program

# `apptainer build`: an image, and Horovod's wheel in the folder bound at /srv. It waits with its
# result half written while there is a file `hold-DEFINITION`, before it takes over packages.
APPTAINER = """
[ "$1" = build ] || exit 0
for word; do
  case $word in *:/srv|*:/srv,*) srv=${word%:/srv*}; srv=${srv##*,};; esac
  case $word in *:/opt/horovod) installed=${word%:/opt/horovod}; installed=${installed##*,};; esac
  before=$output; output=$definition; definition=$word
done
name=$(basename "$definition" .def)
echo "$name" >> "$CALLS/$name"
printf half > "$output"
while [ -e "$CALLS/hold-$name" ]; do touch "$CALLS/holds-$name"; sleep 0.05; done
if [ -n "$srv" ]; then touch "$srv/horovod.whl"; fi
if [ -n "$installed" ]; then touch "$installed/pyvenv.cfg"; fi
if [ -f installed-packages/pyvenv.cfg ]; then
  rm -r installed-packages/*
  echo "$name" >> "$CALLS/took-over"
fi
if [ -e "$CALLS/full" ]; then echo 'FATAL: no space left on device'; exit 1; fi
echo whole > "$output"
"""
BUILD = """
import os, sys
from dataclasses import replace
from pathlib import Path
from containers import base_image, build, build_record, build_plan, image_catalogue
from containers.apptainer import Apptainer
from containers.build_folders import BuildFolders
from containers.build_modes import Mode
from containers.build_steps import BuildProgress
from runners.core.disk_space import Needs

folder = Path(sys.argv[1])
image = replace(image_catalogue.image("cpu"), needs=Needs(0, 0), needs_for_trainers=Needs(0, 0))
folders = BuildFolders(folder / "cache", folder / "work", folder / "images")
revision = build_plan.Revision("1", "abc", 1700000000)
base = base_image.find("debian:12", image.architecture)
made = build_plan.BuildPlan(image, base, folders, folders.images / "horovod_cpu.sif", revision)
made.wheels.mkdir(parents=True, exist_ok=True)
builder = build.Builder(made, Apptainer(Mode("", (), "", True), os.environ, folders.temporary))

def make_image(self):
    folders.images.mkdir(exist_ok=True)
    made.output.write_text(made.environment.read_text())
    build_record.write(made.output, made.key, level=made.packed_level)

class Shown(BuildProgress):
    def say(self, text):
        print(text, flush=True)

build.Builder.here = lambda *_: builder
build.Builder.make_image = make_image
build.Builder.check_versions = lambda *_: None
build.build(made, build_plan.BuildOptions(), Shown())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where it all happens; what a test holds goes on at its end."""
    program(tmp_path / "bin/apptainer", APPTAINER)
    yield tmp_path
    for hold in tmp_path.glob("hold-*"):
        hold.unlink()


def start(folder: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "CALLS": str(folder)}
    environ["PATH"] = f"{folder}/bin:{environ['PATH']}"
    command = [sys.executable, "-c", BUILD, str(folder)]
    return subprocess.Popen(
        command,
        env=environ,
        cwd=image_catalogue.CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def packed(folder: Path, name: str) -> int:
    """Return how many builds of a definition began."""
    return len((folder / name).read_text().split()) if (folder / name).exists() else 0


def ended(build: subprocess.Popen[str]) -> str:
    output, _ = build.communicate(timeout=60)
    assert build.returncode == 0, output
    return output


def counts(folder: Path) -> list[int]:
    return [packed(folder, name) for name in ("horovod_wheel", "horovod_cpu")]


def results(folder: Path) -> list[str]:
    """Return the kinds of what is kept of builds."""
    return sorted(path.name.partition("-")[0] for path in (folder / "cache/builds").glob("[!.]*"))


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("horovod_wheel", [], [2, 1]), ("horovod_cpu", ["horovod"], [1, 2])],
)
def test_a_build_that_was_killed_goes_on_and_takes_nothing_half_made(
    folder: Path, name: str, before: list[str], after: list[int]
) -> None:
    hold = folder / f"hold-{name}"
    hold.touch()
    killed = start(folder)
    waiting.until((folder / f"holds-{name}").exists)
    killed.kill()
    killed.communicate(timeout=10)
    assert results(folder) == before
    hold.unlink()
    ended(start(folder))
    assert (folder / "images/horovod_cpu.sif").read_text() == "whole\n"
    assert results(folder) == ["environment", "horovod"]
    assert len(list(folder.glob("cache/builds/horovod-*/horovod.whl"))) == 1
    assert counts(folder) == after
    # Packages of the compilation are there only for the environment of the same build.
    assert packed(folder, "took-over") == (after == [2, 1])
    ended(start(folder))
    assert counts(folder) == after
    assert list((folder / "work/tmp").iterdir()) == []


def test_the_command_of_a_build_that_was_killed_ends_with_it(folder: Path) -> None:
    """Else it would write into the folder of the next build."""
    (folder / "hold-horovod_cpu").touch()
    killed = start(folder)
    held = folder / "holds-horovod_cpu"
    waiting.until(held.exists)
    killed.kill()
    killed.wait()
    time.sleep(0.2)  # a round of the stand-in's
    held.unlink()
    time.sleep(0.5)
    assert not held.exists()


def test_of_two_builds_of_one_image_the_second_takes_what_the_first_made(folder: Path) -> None:
    hold = folder / "hold-horovod_cpu"
    hold.touch()
    first = start(folder)
    waiting.until((folder / "holds-horovod_cpu").exists)
    second = start(folder)
    assert second.stdout
    while "waiting for process" not in (line := second.stdout.readline()):
        assert line, "it did not wait"
    assert f"process {first.pid} on " in line
    hold.unlink()
    ended(first)
    ended(second)
    assert counts(folder) == [1, 1]
    assert (folder / "images/horovod_cpu.sif").read_text() == "whole\n"


def test_where_there_is_no_room_for_the_environment_nothing_of_it_stays(folder: Path) -> None:
    hold, full = folder / "hold-horovod_cpu", folder / "full"
    hold.touch()
    build = start(folder)
    waiting.until((folder / "holds-horovod_cpu").exists)
    full.touch()
    hold.unlink()
    output, _ = build.communicate(timeout=60)
    assert build.returncode == 1
    assert "no space left on device" in output
    assert results(folder) == ["horovod"]
    assert list((folder / "work/tmp").iterdir()) == []
    assert not (folder / "images").exists()
    full.unlink()
    ended(start(folder))
    assert counts(folder) == [1, 2]
