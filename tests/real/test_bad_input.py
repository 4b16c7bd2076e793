"""Bad input: one clear message, the documented exit code, no traceback, nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import IMAGE, Login, ended, on_cluster

USAGE, REFUSED, FAULT = 2, 80, 1


def assert_refused(login: Login, words: list[str], code: int, expected: str) -> None:
    """Launch with `words` and see that it is refused without a trace."""
    done = ended(login.runner("launch", *words), code, expected)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert login.runs() == []


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["torch_mnist"], USAGE, "no image was given"),
        (["--image", "horovod-cpu.sif", "torch_mnist"], USAGE, "did you mean horovod_cpu.sif"),
        (["--image", "/etc/passwd", "torch_mnist"], REFUSED, "does not start like a SIF"),
        (["--image", "cut.sif", "torch_mnist"], REFUSED, "truncated"),
        (["--image", IMAGE, "trian.py"], USAGE, "did you mean train.py"),
        (["--image", IMAGE, "--nodes", "two", "train.py"], USAGE, "not a valid integer"),
        (["--image", IMAGE, "--nodse", "2", "train.py"], USAGE, "try: runner launch --image"),
        (["--image", IMAGE, "-p", "nope", "train.py"], USAGE, "there is no partition nope"),
        (["--image", IMAGE, "--mem", "9T", "train.py"], REFUSED, "try: sinfo --exact"),
        (["--image", IMAGE, "-C", "nope", "train.py"], REFUSED, "try: sinfo --exact"),
        (["--image", IMAGE, "--gres", "nope:1", "train.py"], REFUSED, "try: sinfo --exact"),
        (["--image", IMAGE, "--dependency", "afterok:9", "train.py"], REFUSED, "squeue --me"),
        (["--image", IMAGE, "-t", "25:00:00", "train.py"], REFUSED, "--time 1-00:00:00"),
        (["--image", IMAGE, "-w", "nope", "train.py"], REFUSED, "try: sinfo --Node"),
        (["--image", IMAGE, "--reservation", "nope", "train.py"], REFUSED, "show reservations"),
        (["--image", IMAGE, "-N", "99", "train.py"], REFUSED, "partition cpu has 2 nodes"),
        (["--image", IMAGE, "--output", "no/x.log", "train.py"], USAGE, "no does not exist"),
        (
            ["--image", IMAGE, "-e", "no/x.err", "train.py"],
            USAGE,
            "--error no/x.err: the folder no",
        ),
    ],
)
def test_refused(login: Login, words: list[str], code: int, expected: str) -> None:
    login.write("train.py", "print('hello')")
    login.sh(f"head -c 1000000 {IMAGE} > cut.sif")
    assert_refused(login, words, code, expected)


def test_no_slurm(login: Login) -> None:
    login.write("train.py", "")
    no_slurm = f"{login.folder}/bin"
    login.sh("mkdir bin; ln -s /opt/runner/bin/runner /usr/bin/{env,python3,apptainer} bin/")
    words = ["launch", "--image", IMAGE, "--scheduler", "slurm", "train.py"]
    done = login.runner(*words, env={"PATH": no_slurm})
    assert (done.returncode, login.runs()) == (REFUSED, [])
    assert "no Slurm on this machine" in done.stderr
    assert "--scheduler local" in done.stderr


@pytest.fixture
def silent_controller() -> Iterator[None]:
    """Slurm's controller does not answer."""
    on_cluster(["pkill", "-STOP", "-x", "slurmctld"], user="root")
    yield
    on_cluster(["pkill", "-CONT", "-x", "slurmctld"], user="root")


@pytest.mark.usefixtures("silent_controller")
def test_the_controller_does_not_answer(login: Login) -> None:
    login.write("train.py", "")
    words = ["--image", IMAGE, "train.py"]
    assert_refused(login, words, FAULT, "controller does not answer; nothing was submitted")


@pytest.fixture
def small_disk(login: Login) -> Iterator[None]:
    """The folder `full` in ada's folder is a file system of 1 MiB."""
    folder = f"{login.folder}/full"
    login.sh("mkdir full")
    on_cluster(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755,uid=1000", "tmpfs", folder], user="root"
    )
    yield
    on_cluster(["umount", folder], user="root")


@pytest.mark.usefixtures("small_disk")
def test_no_space(login: Login) -> None:
    login.write("train.py", "")
    words = ["--image", IMAGE, "--scheduler", "local", "--runs-dir", "full/runs", "train.py"]
    assert_refused(login, words, REFUSED, "no space for the run: it needs 64.0 MB, 1.0 MB are free")
    assert login.sh("ls full") == ""


@pytest.mark.parametrize("command", ["status", "logs", "wait", "cancel", "result"])
def test_a_job_that_does_not_exist(login: Login, command: str) -> None:
    ended(login.runner(command, "987654"), USAGE, "no run or job '987654'")
