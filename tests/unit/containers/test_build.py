"""The parts of a build that run something, on small commands; and what is pure in the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from containers import apptainer, apt, build_plan, debian, process
from containers.build_folders import BuildFolders
from containers.build_modes import Mode
from containers.build_plan import USUAL_LEVEL, ZSTD
from containers.horovod_image import selftest
from runners.core import digest
from tests.docker_archive import docker_archive

from .. import sentences

CHECK_BUILD = """\
Horovod v0.28.1:

Available Frameworks:
    [X] TensorFlow
    [X] PyTorch
    [ ] MXNet

Available Controllers:
    [X] MPI
    [ ] Gloo

Available Tensor Operations:
    [ ] NCCL
    [X] MPI
"""


def test_the_output_of_check_build_is_read() -> None:
    assert selftest.parse_build(CHECK_BUILD) == {
        "frameworks": ["TensorFlow", "PyTorch"],
        "controllers": ["MPI"],
        "operations": ["MPI"],
    }


def answer(text: str, code: int = 0) -> object:
    return lambda command: subprocess.CompletedProcess(command, code, stdout=text)


def test_a_missing_controller_fails_the_selftest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "rendezvous", lambda: 1)
    monkeypatch.setattr(selftest, "run", answer("built: MPI\n" * 2, 134))
    monkeypatch.setattr(selftest, "locked", lambda: {"torch", "tensorflow-cpu"})
    assert selftest.main([]) == 1
    sentences.said(capsys.readouterr().err)


SUMS = "".join(f"sum=[3.0] size=2 controller={name} \n" * 2 for name in ("gloo", "mpi"))


@pytest.mark.parametrize(
    ("ranks", "code", "fails"),
    [
        (f"built: MPI Gloo\n{SUMS}", 0, False),
        (f"built: MPI Gloo\n{SUMS}", 1, True),
        (f"built: MPI Gloo\n{SUMS[:-5]}", 0, True),
        ("ImportError: x", 1, True),
    ],
)
def test_each_framework_is_started_once_for_both_controllers(
    ranks: str, code: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "rendezvous", lambda: 1)
    monkeypatch.setattr(selftest, "run", answer(ranks, code))
    with sentences.refuses(selftest.Failed) if fails else nullcontext():
        assert selftest.prove_both("torch") == ["MPI", "Gloo"]


@pytest.mark.parametrize("ranks", ["sum=[1.0] size=1 controller=mpi \n" * 2, "", "segfault"])
def test_ranks_that_are_alone_fail_the_selftest(
    ranks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "run", answer(ranks))
    with sentences.refuses(selftest.Failed):
        selftest.prove("torch", "mpi")


def test_two_right_ranks_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "run", answer("sum=[3.0] size=2 controller=mpi \n" * 2))
    selftest.prove("torch", "mpi")
    monkeypatch.setattr(selftest, "run", answer("sum=[3.0] size=2 controller=mpi \n" * 2, 1))
    with sentences.refuses(selftest.Failed):
        selftest.prove("torch", "mpi")


def test_the_selftest_does_not_see_the_job_it_runs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
    seen = selftest.run(["/usr/bin/env"]).stdout
    assert "SLURM_JOB_ID" not in seen
    assert "OMPI_MCA_btl_vader_single_copy_mechanism=none" in seen


def test_the_archive_may_be_named_and_must_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert debian.find_archive({apt.MIRROR: "http://m.example/d/"}) == "http://m.example/d"
    (tmp_path / "sources.list").write_text("# deb http://mirror.example/debian trixie main\n")
    monkeypatch.setattr(apt, "APT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no mmdebstrap, which knows one
    with sentences.raises("debian-archive-missing"):
        debian.find_archive({})


def test_the_base_is_made_without_privilege_and_without_a_trace_of_the_archive() -> None:
    archive, packages = "http://m.example/d", ["python3", "g++"]
    command = debian.argv(archive, "bookworm", ("main", "contrib"), packages, Path("o.tar"))
    assert command[:4] == ["unshare", "--user", "--map-root-user", "--map-auto"]
    as_root = debian.argv(archive, "bookworm", ("main",), packages, Path("o.tar"), "root")
    assert as_root[:2] == ["mmdebstrap", "--mode=root"]
    assert "--include=python3,g++" in command
    assert any("sources.list" in word for word in command if word.startswith("--customize-hook"))
    assert command[-1].endswith("http://m.example/d bookworm-updates main contrib")


def test_a_base_looks_like_a_saved_image(tmp_path: Path) -> None:
    layer, output = tmp_path / "layer", tmp_path / "base.tar"
    layer.write_bytes(b"file system")
    docker_archive(layer, output)
    with tarfile.open(output) as archive:
        names = archive.getnames()
        member = archive.extractfile("config.json")
        assert member is not None
        config = json.load(member)
    assert names == ["config.json", "manifest.json", "layer.tar"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest.sha256(layer)}"]


def test_a_failure_shows_the_end_of_its_log_and_where_it_is(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    with sentences.raises("command-failed") as caught:
        process.run(["sh", "-c", "seq 100; exit 3"], log, os.environ)
    assert caught.value.what.endswith(str(log))


def test_sigterm_reaches_the_command_as_an_interrupt(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    script = """\
import time
try:
    print('it runs', flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print('cleaned up')"""

    def end_when_it_runs() -> None:
        while not (log.exists() and log.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=end_when_it_runs).start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            process.run([sys.executable, "-c", script], log, os.environ)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - began < 20
    assert log.read_text() == "it runs\ncleaned up\n"


PACKED = ZSTD.format(USUAL_LEVEL)
MODE = Mode("fakeroot with subordinate ids", ("--fakeroot",), "", True)
FOLDERS = BuildFolders(Path("/cache"), Path("/fast/horovod-runner"), Path("/fast/images"))


def test_the_machines_own_settings_stay_outside() -> None:
    given = {"PIP_INDEX_URL": "x", "PYTHONPATH": "x", "APPTAINER_BIND": "x", "PATH": "/bin"}
    given["SOURCE_DATE_EPOCH"] = "8"
    found = apptainer.environment(FOLDERS, given, epoch=7)
    assert not {"PIP_INDEX_URL", "PYTHONPATH", "APPTAINER_BIND"} & set(found)
    assert found["PATH"] == "/bin"
    assert found["APPTAINER_TMPDIR"].endswith("horovod-runner/tmp")
    assert found["SOURCE_DATE_EPOCH"] == "7"


def test_the_users_own_apptainer_folders_stay() -> None:
    found = apptainer.environment(FOLDERS, {"APPTAINER_TMPDIR": "/mine"}, epoch=0)
    assert found["APPTAINER_TMPDIR"] == "/mine"


def test_a_build_takes_the_flags_of_the_mode_and_its_arguments() -> None:
    asked = apptainer.Build(
        Path("x.def"), Path("x.sif"), {}, {"from": "a b"}, ("/w:/mnt:ro",), PACKED
    )
    command = apptainer.Apptainer(MODE, {}, Path("tmp")).argv(asked)
    assert command[:3] == ["apptainer", "build", "--fakeroot"]
    assert command[command.index("--mksquashfs-args") + 1] == PACKED
    assert command[-4:] == ["--build-arg", "from=a b", "x.sif", "x.def"]


PACKING = "#!/bin/sh\nmkdir rootfs\nmksquashfs -version && mksquashfs rootfs x.sif\n"


def test_apptainer_packs_with_the_machines_mksquashfs(tmp_path: Path) -> None:
    programs = tmp_path / "our $HOME"
    programs.mkdir()
    for name, text in (("apptainer", PACKING), ("mksquashfs", "#!/bin/sh\necho packed $1\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    asked = apptainer.Build(Path("x.def"), Path("x.sif"), {}, {})
    runtime = apptainer.Apptainer(MODE, {"PATH": f"{programs}:{os.environ['PATH']}"}, tmp_path)
    runtime.build(asked, tmp_path / "log", tmp_path)
    assert (tmp_path / "log").read_text().splitlines() == ["packed -version", "packed rootfs"]


def test_an_unknown_image_is_refused() -> None:
    with sentences.raises("image-unknown"):
        build_plan.make("tpu", build_plan.BuildOptions())


def git(folder: Path, *arguments: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *settings, *arguments], check=True)


def test_the_revision_is_the_last_change_of_the_inputs(tmp_path: Path) -> None:
    assert build_plan.last_change(tmp_path, ["in"]) == ""
    git(tmp_path, "init", "--quiet")
    for name in ("in", "out"):
        (tmp_path / name).write_text("1")
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "--quiet", "-m", name)
        if name == "in":
            found = build_plan.last_change(tmp_path, ["in"])
    assert build_plan.last_change(tmp_path, ["in"]) == found
    assert len(found.split()[0]) == 40, "abbreviated, builders with other clones would differ"
    (tmp_path / "in").write_text("2")
    assert build_plan.last_change(tmp_path, ["in"]) == found.replace(" ", "-dirty ")


def test_the_version_is_read_from_the_project_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    assert build_plan.version(tmp_path) == "1.2.3"
