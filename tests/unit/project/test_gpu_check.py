"""The check of an image on real GPUs, as far as it can be tried without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu import __main__ as program
from tests.gpu.machine import Absent, Bench, Failed, Gpu, gpus

from .. import programs

H200 = "NVIDIA H200, 580.159.03, 143771 MiB, 9.0"


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0) -> None:
    """Put a stand-in for nvidia-smi on PATH."""
    script = programs.program(tmp_path / "bin" / "nvidia-smi", f"echo '{text}'\nexit {code}")
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")


def test_gpus_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, f"{H200}\n{H200}")
    assert gpus() == 2 * [Gpu("NVIDIA H200", "580.159.03", "143771 MiB", "9.0")]


@pytest.mark.parametrize("text", ["No devices were found", "", "NVIDIA H200"])
def test_a_machine_without_gpus_ends_with_2(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, text, code=6)
    assert program.main(["--image", str(tmp_path)]) == 2
    assert "no NVIDIA GPU" in capsys.readouterr().err


def test_an_image_that_is_not_there_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, H200)
    assert program.main(["--image", str(tmp_path / "none.sif")]) == 2
    assert "none.sif: no such file" in capsys.readouterr().err


def test_the_report_tells_what_failed_and_what_was_not_run(tmp_path: Path) -> None:
    def fails(_: Bench) -> str:
        raise Failed("another | result")

    def absent(_: Bench) -> str:
        raise Absent("one GPU")

    checks = [("a", lambda _: "5 steps"), ("b", fails), ("c", absent)]
    rows = program.run_checks(Bench(tmp_path, tmp_path), checks)
    assert [row[1] for row in rows] == ["ok", "FAILED", "not run"]
    page = program.report(tmp_path, ["- a GPU"], ["check", "result", "time", "evidence"], rows)
    assert "| b | FAILED | 0 s | another / result |" in page.splitlines()


def test_a_command_with_another_exit_code_is_a_failure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path)
    assert "Options:" in bench.runner("launch", "--help")
    with pytest.raises(Failed, match=r"exit code 80[\s\S]*sandbox image"):
        bench.launch("torch_mnist")
