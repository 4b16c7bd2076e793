"""The training benchmark's turns and arithmetic; no network is trained here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench.login import turns
from tests.bench.train import jobs, loops, sizes
from tests.bench.train.cases import CONTROLLERS, Case

KIT = Path(__file__).parents[2]
RANKS = f"""
import os, sys, time
sys.path.insert(0, {str(KIT)!r})
from pathlib import Path
from tests.bench.train.steps import serve
folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
rank = int(os.fork() == 0)
def step():
    (folder / "steps").open("a").write(str(rank))
    time.sleep(seconds * (1 + rank))
serve(folder, rank, step)
if rank == 0:
    os.wait()
"""


def case(command: list[str], steps: int = 2) -> dict[str, object]:
    return {"command": command, "ranks": 2, "steps": steps, "env": {}}


def test_programs_train_in_turns_and_the_slowest_rank_counts(tmp_path: Path) -> None:
    program = [sys.executable, "-c", RANKS, "FOLDER"]
    cases = {"fast": case([*program, "0.001"]), "slow": case([*program, "0.02"])}
    found = turns.measure(cases, 0.3, tmp_path)
    rounds = len(found["fast"])
    assert rounds == len(found["slow"]) >= 3
    assert min(seconds for seconds, *_ in found["slow"]) >= 0.04
    assert all(cpu < 0.02 for _, cpu, _ in found["slow"])
    for folder in ("0", "1"):  # in each turn one step to get together, and two that count
        done = (tmp_path / folder / "steps").read_text()
        assert (done.count("0"), done.count("1")) == (3 * rounds, 3 * rounds)


def test_a_program_that_ends_is_told_with_its_words(tmp_path: Path) -> None:
    broken = case([sys.executable, "-c", "raise SystemExit('no such module')"])
    with pytest.raises(SystemExit, match="no such module"):
        turns.measure({"broken": broken}, 0.1, tmp_path)


def test_speeds_are_compared_within_each_turn_and_count_all_batches() -> None:
    cases = {
        "DDP": Case("ddp", to=""),
        "Horovod, Gloo": Case("horovod"),
        "four": Case("horovod", options=("passes=4",), to="Horovod, Gloo"),
    }
    found = {
        "DDP": [[0.1, 0.05, 2], [0.4, 0.05, 2]],
        "Horovod, Gloo": [[0.05, 0.05, 2], [0.2, 0.05, 2]],
        "four": [[0.1, 0.1, 1], [0.4, 0.1, 1]],
    }
    ddp, gloo, four = loops.rows(cases, found)
    assert (ddp.ratio, gloo.ratio, four.ratio) == (None, 2, 2)
    assert (gloo.aim, four.aim, four.to) == (">= 1", "", "Horovod, Gloo")
    cost, bound = loops.notes(found)
    assert "DDP 50.0" in cost
    assert bound == "On fewer than 2 CPUs: four (1)."


def test_each_way_is_compared_with_ranks_that_exchange_nothing() -> None:
    turn = {"DDP": 0.2, "Horovod, Gloo": 0.125, "Horovod, MPI": 0.1}
    found = {name: [[seconds, 0.05, 2]] * 3 for name, seconds in turn.items()}
    assert len(loops.notes(found)) == 1
    reached = loops.notes({**found, "Ranks that exchange nothing": [[0.1, 0.05, 2]] * 3})[1]
    assert "DDP 0.50 (0.50 to 0.50), Horovod, Gloo 0.80" in reached


def test_an_allreduces_bytes_are_counted_once() -> None:
    found = {"DDP": [[0.5, 0.1, 2]] * 2, "Horovod, Gloo": [[0.25, 0.1, 2]] * 2}
    ddp, gloo = sizes.rows(10_000_000, found)
    assert (ddp.median, gloo.median, gloo.ratio) == (20, 40, 2)


def test_jobs_are_compared_in_the_steady_epochs() -> None:
    def run(speed: float) -> dict[str, float]:
        return {"samples_per_s": speed, "first_epoch_seconds": 2, "steady_epoch_seconds": 1}

    found = {"DDP": [run(100), run(50)], "Horovod, MPI": [run(120), run(60)]}
    assert [row.ratio for row in jobs.rows(found)] == [None, pytest.approx(1.2)]
    assert jobs.notes(found)[0] == "DDP: first epoch 2.00 s, steady epochs 1.00 s each"


def test_the_step_loop_gets_what_a_launch_sets() -> None:
    asked = loops.WAYS["Horovod, MPI"].request("small", 2, 10)
    assert set(CONTROLLERS["mpi"].items()) <= set(asked["env"].items())
    assert asked["env"]["OMP_NUM_THREADS"] == "1"
    assert asked["command"][-3:] == ["FOLDER", "horovod", "small"]
