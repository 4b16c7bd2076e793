"""Targets, variables and environments of the Makefile, as make itself expands them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.state import CHECKOUT

from ..programs import program

MAKEFILE = (CHECKOUT / "Makefile").read_text()
ODD = "a b;stolen c'd\"e"
AS_USER = ["setpriv", "--reuid=65534"] if os.geteuid() == 0 else []


def make(*words: str, user: bool = False) -> subprocess.CompletedProcess[str]:
    """What make prints; as an ordinary user where `user` says so, who builds without a cluster."""
    command = [*(AS_USER if user else []), "make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)


def expanded(*words: str, user: bool = False) -> list[str]:
    """The words of all commands that make would run."""
    done = make("--dry-run", *words, user=user)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def test_help_lists_every_target_and_each_variable_of_a_build() -> None:
    said = make("help").stdout
    declared = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    inner = {"cluster-possible", "real", "test-first"}  # what others consist of
    inner |= {"kit-environment", "test-environment", "docs-environment"}
    targets = {target for line in declared for target in line.split()} - inner
    assert {"build-gpu13", "demo-here"} <= targets
    assert targets == set(re.findall(r"^  ([a-z0-9-]+) +\S", said, re.MULTILINE))
    assert {"BASE", "WHEELHOUSE", "INDEX_URL"} <= set(re.findall(r"^  ([A-Z_]+)=", said, re.M))


@pytest.mark.skipif(os.geteuid() != 0, reason="root's images lie on the test cluster's scratch")
def test_help_says_where_the_image_goes() -> None:
    said = make("help", "RUNNER_CACHE=/big disk").stdout
    assert "Images go to: /big disk/cluster/scratch/ada/images" in said
    assert "Images go to: images/ in RUNNER_SCRATCH, SCRATCH" in make("help", user=True).stdout


@pytest.mark.parametrize("user", [False, True])
def test_builds_take_their_options_whatever_is_in_them(user: bool) -> None:
    names = {"BASE": "--base", "INDEX_URL": "--index-url", "PACK_LEVEL": "--pack-level"}
    given = [f"WHEELHOUSE=/w {ODD}", *(f"{name}={ODD}" for name in names)]
    words = expanded("build-cpu", "build-gpu", "build-gpu13", *given, user=user)
    values = {"--wheelhouse": f"/w {ODD}", **dict.fromkeys(names.values(), ODD)}
    for image in ("cpu", "gpu", "gpu13"):
        start = words.index(image)
        options = words[start + 1 : start + 9]
        assert words[start - 1] == "build"
        assert dict(zip(options[::2], options[1::2])) == values


def test_a_value_is_one_word_whatever_is_in_it() -> None:
    targets = ("test-gpu", "bench-gpu", "cluster-up", "real", "docs", "lock")
    given = {name: f"{name} {ODD}" for name in ("IMAGE", "NODES")}
    given |= {"RUNNER_CACHE": f"/big {ODD}", "PYTHON": f"/my {ODD}"}
    words = expanded(*targets, *(f"{name}={value}" for name, value in given.items()))
    for value in given.values():
        assert any(word.startswith(value) for word in words), value
    assert not [word for word in words if word.startswith("stolen")]  # what `;` would begin


def test_building_needs_no_tools_of_the_tests(tmp_path: Path) -> None:
    """A Python that makes an environment whose pip says what it is asked for."""
    pip = f'mkdir -p "$3/bin"; printf \'echo "$@" >> {tmp_path}/asked\' > "$3/bin/pip"'
    make_pip = f'{pip}; chmod +x "$3/bin/pip"; ln -sf {sys.executable} "$3/bin/python"'
    python = program(tmp_path / "my python", f'case "$1$2" in -mvenv) {make_pip};; *) :;; esac')
    tmp_path.chmod(0o777)
    words = [f"PYTHON={python}", f"RUNNER_CACHE={tmp_path}/big disk", "INDEX_URL=http://i dx"]
    for _ in range(2):
        done = make("kit-environment", *words)
        assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["install --quiet --index-url http://i dx -r requirements.txt"]  # once
    with_tests = (CHECKOUT / "tests" / "requirements.txt").read_text()
    assert "-r ../requirements.txt" in with_tests


def test_what_a_build_needs_are_the_dependencies_of_the_project() -> None:
    project = (CHECKOUT / "pyproject.toml").read_text()
    block = project.partition("\ndependencies = [\n")[2].partition("]\n")[0]
    listed = (CHECKOUT / "requirements.txt").read_text().splitlines()[1:]
    assert [line.strip(' ",').replace('"', "'") for line in block.splitlines()] == listed
