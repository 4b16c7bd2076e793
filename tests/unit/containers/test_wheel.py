"""`runner build wheel`: an image's Horovod alone, from what the image's own build compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from containers import build_plan, image_catalogue
from containers.build_plan import BuildOptions
from runners.cli import cli

NAME = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.delenv("RUNNER_CACHE", raising=False)


def test_what_the_images_build_compiled_is_taken_with_its_sum(tmp_path: Path) -> None:
    compiled = build_plan.make("cpu", BuildOptions()).horovod
    compiled.mkdir(parents=True)
    (compiled / NAME).write_text("compiled")
    folder = tmp_path / "it's; $(touch x) out"
    for _ in range(2):  # another time it is replaced
        done = CliRunner().invoke(cli, ["build", "wheel", "cpu", "-o", str(folder)])
        assert done.exit_code == 0, done.output
        assert done.stdout == f"{folder}/{NAME}\n"
    subprocess.run(["sha256sum", "--check", f"{NAME}.sha256"], cwd=folder, check=True)
    assert (folder / f"{NAME}.sha256").read_text().strip() in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [NAME, f"{NAME}.sha256"]


@pytest.mark.parametrize("words", [[], ["cpu", "gpu"], ["tpu"], ["cpu", "--from", "x.sif"]])
def test_words_that_name_no_wheel(words: list[str]) -> None:
    assert CliRunner().invoke(cli, ["build", "wheel", *words]).exit_code == 2


@pytest.mark.parametrize(
    ("cores", "kilobytes", "jobs"),
    [(8, 16_000_000, 6), (2, 16_000_000, 2), (1, 3_900_000, 1), (8, 900_000, 1)],
)
def test_no_more_compilers_run_than_memory_allows(
    tmp_path: Path, cores: int, kilobytes: int, jobs: int
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 99000000 kB\nMemAvailable: {kilobytes} kB\n")
    script = (image_catalogue.HERE / "horovod/compile.sh").read_text(encoding="utf-8")
    lines = script[script.index("memory=") : script.index("python -m pip wheel")]
    command = lines.replace("/proc/meminfo", str(meminfo)).replace("$(nproc)", str(cores))
    done = subprocess.run(
        ["sh", "-euc", f"{command}echo $MAKEFLAGS"], capture_output=True, text=True
    )
    assert done.stdout == f"-j{jobs}\n"
