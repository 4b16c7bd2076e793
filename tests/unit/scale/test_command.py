"""`runner scale`: what it refuses, before anything is written or submitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runners.scale import study
from runners.scale.study import StudyPaths, StudyRecord
from runners.scale.write_results import EXTRA
from tests.unit.in_process import Done, runner

from .scaled import GLOO, leave, question

CHECKOUT = Path(__file__).parents[3]
NODES = ("--nodes", "1,2")


Scale = Callable[..., Done]


@pytest.fixture
def scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Scale:
    """Run the command in a folder of its own, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        return runner(monkeypatch, capsys, "scale", *words)

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "there is no trainer"),
        (["torch_mnist"], "--nodes is not given"),
        (["--nodes", "1;2", "torch_mnist"], "not a list of numbers of nodes"),
        ([*NODES, "--vary", "colour=red,blue", "torch_mnist"], "it cannot vary"),
        (
            [*NODES, "--drop", "5", "torch_mnist", "--", "--epochs", "5"],
            "leaves none of --epochs 5",
        ),
        ([*NODES, "--reference", "nowhere", "torch_mnist"], "there is none"),
        (["--continue", "."], "is no scaling study"),
        (["--continue", ".", "--repeats", "9"], "leave out --repeats"),
        (["--render-only", ".", *NODES], "leave out --nodes"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, scale: Scale, words: list[str], told: str
) -> None:
    done = scale(*words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without drawings, which take most of the time: test_results.py and real studies have them."""
    monkeypatch.setattr("runners.scale.plot.write", lambda *_: None)


@pytest.mark.usefixtures("undrawn")
def test_a_study_is_shown_again_without_running(tmp_path: Path, scale: Scale) -> None:
    paths = StudyPaths(tmp_path / "study")
    asked = StudyRecord(question(variants=(GLOO,), drop=1), ("scale", "torch_mnist"), str(tmp_path))
    study.begin(paths, asked)
    points = [point for point in asked.question.points() if point.repeat == 1]
    for point, run in zip(points, study.next_attempts(paths, points)):
        nodes = point.size.nodes
        leave(run, 0, state="COMPLETED", world_size=nodes, hosts=["n1", "n2"][:nodes])
    done = scale("--render-only", "study", "--reference", "thetagpu-ddp")
    assert done.returncode == 0, done.stderr
    assert "1 run of 2 measured" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["thetagpu-ddp", "32", "-", "27.2", "85", "%", "0.5", "s", "-", "-"] in rows
    assert "thetagpu-ddp: CIFAR-10, DDP, ThetaGPU A100; ALCF" in done.stdout
    assert study.load(paths).references == ("thetagpu-ddp",)
    for path in (paths.csv, paths.json):
        assert path.stat().st_size > 0


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_ends_within_the_warm_up_says_how_to_measure_it(
    tmp_path: Path, scale: Scale
) -> None:
    paths = StudyPaths(tmp_path / "study")
    asked = StudyRecord(question((1,), 1, variants=(GLOO,)), ("scale", "torch_lm"), str(tmp_path))
    study.begin(paths, asked)
    (run,) = study.next_attempts(paths, asked.question.points())
    leave(run, 0, epochs=1, state="COMPLETED", samples_per_s=None, world_size=1)
    done = scale("--render-only", "study")
    assert "nothing is left of 1 epoch after 1 of warm-up" in done.stdout
    assert "runner scale --render-only study --drop 0" in done.stderr
    again = scale("--render-only", "study", "--drop", "0")
    assert again.returncode == 0, again.stderr
    assert "50.0" in again.stdout


def test_the_extra_package_is_that_of_the_project() -> None:
    assert f'scale = ["{EXTRA}"]' in (CHECKOUT / "pyproject.toml").read_text()
