"""What `make demo` and `make test` do where there can be no test cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests import demo_here
from tests.cluster.state import CHECKOUT

NO_MOUNTS = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give up its capabilities")
def test_root_without_mount_rights_is_told_why_there_is_no_cluster() -> None:
    command = [*NO_MOUNTS, sys.executable, "-m", "tests.cluster", "possible"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert (done.returncode, "CAP_SYS_ADMIN" in done.stderr) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give up its capabilities")
def test_make_test_ends_well_and_names_what_it_left_out() -> None:
    done = make("test-first")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].endswith(
        "Not run: the tests on a real cluster, which need root on Debian or Ubuntu."
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give up its capabilities")
def test_make_test_real_fails() -> None:
    """`cluster-possible` is what the real tests wait for."""
    done = make("cluster-possible")
    assert done.returncode == 2  # make's own, for any recipe that fails; the recipe's is 3
    assert "The tests on real clusters need root on Debian or Ubuntu." in done.stderr
    assert "Error 3" in done.stderr


def make(target: str) -> subprocess.CompletedProcess[str]:
    command = [*NO_MOUNTS, "make", "--no-print-directory", target]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)


def test_the_demo_without_root_asks_for_pytorch_without_cuda_first() -> None:
    first, second = demo_here.requirements()
    assert first[0].endswith("+cpu")
    assert second[0] == first[0].partition("+")[0]
    assert first[1:] == second[1:]


def test_an_interrupted_demo_takes_nothing_half_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path))
    made: list[Path] = []
    interrupts = [KeyboardInterrupt]

    def create(folder: Path, **options: object) -> None:
        assert options["clear"], "what is left of the first one stays"
        folder.mkdir(parents=True, exist_ok=True)
        made.append(folder)

    def install(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if interrupts:
            raise interrupts.pop()
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(venv, "create", create)
    monkeypatch.setattr(subprocess, "run", install)
    with pytest.raises(KeyboardInterrupt):
        demo_here.environment()
    assert made[0].exists()
    assert demo_here.environment() == demo_here.environment() == made[0]
    assert made == [made[0]] * 2
