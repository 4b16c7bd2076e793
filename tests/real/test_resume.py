"""Interrupted and queued again, on a Slurm that preempts, and that signals as most sites' does."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.design import PREEMPTION
from tests.cluster.state import State
from tests.documents import ROOT, blocks

from .beside import cluster
from .conftest import UNPACKED, Login, ended, new_folder, on_cluster, succeeded

# Runs a recipe whose steps and checkpoints take so long, on any machine.
SLOW = """
import os, runpy, signal, sys, time
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, frame: sys.exit(91))  # until the recipe listens itself
from recipes import checkpoints, run
def slower(function, seconds):
    def call(*args, **named):
        time.sleep(seconds)
        return function(*args, **named)
    return call
run.Run.step_done = slower(run.Run.step_done, float(os.environ["STEP_SECONDS"]))
written = checkpoints.write_atomically
def write_atomically(path, data):
    if os.path.exists("slow-disk"):
        path.with_name(f".{path.name}.part").write_bytes(b"half a checkpoint")
        time.sleep(60)
    written(path, data)
checkpoints.write_atomically = write_atomically
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""
# A trainer of one rank on the recipes' own files, without a framework: its weights are a number.
# That a signal reaches the ranks of two nodes is shown by OWN, that they agree by PREEMPTED.
NUMBER = """
from recipes import checkpoints, options
from recipes.distributed import Ranks
from recipes.device import Framework
from recipes.run import Run
parser = options.Parser("number", "Trains a number, which is that of the step.")
for name in ("--epochs", "--batch-size"):
    parser.add_argument(name, type=int)
args, alone = parser.parse_args(), Ranks(0, 1, 0, 1, lambda mine: [mine], lambda mine: mine, int)
run = Run(args, alone, "number", Framework("cpu", {}), "719 samples")
class Weights:
    value = 0
    def signature(self):
        return checkpoints.signature([("number", [1])])
    def pack(self, folder):
        return b"%d" % self.value
    def unpack(self, payload):
        self.value = int(payload)
weights = Weights()
run.begin(719, weights)
run.rate = 1.0
for _ in run.epochs():
    for batch in run.batches():
        weights.value += 1
        run.step_done(0.5 * batch.own)
    run.epoch_done()
assert weights.value == run.step
run.finish([])
"""
# A trainer of the user's own: 100 steps, of which it saves the number when it is asked to.
OWN = """
import os, signal, sys, time
asked = []
signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(number))
saved = os.environ["OUTPUT_DIR"] + "/saved"
step = int(open(saved).read()) if os.environ["RESUME"] == "auto" and os.path.exists(saved) else 0
print("begins at", step, flush=True)
while step < 100:
    step += 1
    time.sleep(0.1)
    if asked:
        open(saved, "w").write(str(step))
        sys.exit(91)
print("ended at", step, flush=True)
"""
SHORT = ["--epochs", "2", "--batch-size", "8", "--log-interval", "1"]
STEPS = 180  # 1438 samples over 2 ranks of 8, or 719 over one, twice
PREEMPTED = {"torch_mnist": (20, 80), "tf_mnist": (50,)}  # recipe -> after which steps
LOW = ["-p", "low", "--requeue", "--parsable"]
# Over MPI a rank that waits for the slower other looks for it in each cycle, without a rest.
ON_TWO = ["-N", "2", "--cycle-time-ms", "20"]


@pytest.fixture(scope="module")
def preempting() -> Iterator[None]:
    """A cluster with partitions low and high, unless this one has them."""
    if State.locate(None).design.has(PREEMPTION):
        yield
    else:
        with cluster("--quirk", "preemption", "--quirk", "cgroups"):
            yield


@pytest.fixture
def login(preempting: None) -> Iterator[Login]:
    """An empty folder of ada's there; removed afterwards."""
    folder = new_folder()
    yield Login(folder, UNPACKED)
    on_cluster(["rm", "-rf", folder])


def start(login: Login, module: str, *options: str, pause: float = 0.05) -> str:
    """Launch a slowed trainer; return the job's number."""
    trainer = login.write("slow.py", SLOW)
    words = [*LOW, "--env", f"STEP_SECONDS={pause}", *options, trainer, "--", module, *SHORT]
    return succeeded(login.launch(*words)).stdout.strip()


def until(login: Login, condition: str, seconds: int = 120) -> None:
    """Wait in the folder until a shell condition holds."""
    login.sh(f"for i in $(seq {seconds * 5}); do {condition} && exit; sleep 0.2; done; exit 9")


def trained(step: int) -> str:
    """Return the condition that the last run has come to a step."""
    return f"""[ "$(grep -c '"event": "step"' runs/*/metrics.jsonl 2>/dev/null)" -gt {step} ]"""


def steps(login: Login) -> list[int]:
    """Return the steps that metrics.jsonl tells of, in its order."""
    lines = map(json.loads, login.sh("cat runs/slow-1/metrics.jsonl").splitlines())
    return [line["step"] for line in lines if line["event"] == "step"]


def final_checkpoint(login: Login, folder: str) -> str:
    """Return the checksum of the newest checkpoint below a folder."""
    text = login.sh(f"cat $(ls {folder}/checkpoints/step-*.json | tail -1)")
    return str(json.loads(text)["sha256"])


def uninterrupted(login: Login, recipe: str) -> dict[str, Any]:
    """Train with the same options and nothing in between; return the result."""
    ranks = f"mpirun --oversubscribe -np 2 python -m recipes.{recipe} {' '.join(SHORT)}"
    login.sh(f"OMP_NUM_THREADS=1 apptainer exec {UNPACKED} {ranks} --output whole")
    value: dict[str, Any] = json.loads(login.sh("cat whole/result.json"))
    return value


def preempt(login: Login) -> None:
    """Let a job of the partition high take both nodes for a moment."""
    login.sh("sbatch -p high -N 2 --exclusive -o /dev/null --wrap 'sleep 1'")


@pytest.mark.parametrize("recipe", PREEMPTED)
def test_a_preempted_job_ends_like_one_that_was_not(login: Login, recipe: str) -> None:
    """PyTorch's twice, in which a run that goes on is saved; TensorFlow's starts take long."""
    id, times = start(login, f"recipes.{recipe}", *ON_TWO), len(PREEMPTED[recipe])
    for restarted, step in enumerate(PREEMPTED[recipe], 1):
        until(login, trained(step))
        preempt(login)
        until(login, f'[ "$(squeue -h -j {id} -O RestartCnt | tr -d " ")" = {restarted} ]')
        assert login.sh("ls runs/slow-1").split().count("exit.json") == 0
    ended(login.runner("logs", "--follow", id), 0, f"restart {times} of 10", "completed")
    stood = login.told("status", id)
    assert stood["restarts"] == times

    assert sorted(set(steps(login))) == list(range(1, STEPS + 1))
    assert len(steps(login)) <= STEPS + 2  # at most the step in flight is done again
    one, other = login.told("result"), uninterrupted(login, recipe)
    assert (one["accuracy"], one["test_loss"]) == (other["accuracy"], other["test_loss"])
    # Its sum begins at 0 at each restart, which rounds differently.
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)
    assert len(one["resumed_at_steps"]) == times
    assert final_checkpoint(login, "runs/slow-1") == final_checkpoint(login, "whole")
    assert "failures" not in login.sh("ls runs/slow-1").split()


def test_time_runs_out_until_the_budget_is_used_and_a_hand_goes_on(login: Login) -> None:
    """Slurm looks at time limits every half minute, and warns 20 to 50 s after the start here."""
    limits = ["--time", "1", "--signal", "USR1@10", "--requeue-limit", "1"]
    plain = ["--no-requeue", "--time", "1", "--job-name", "plain"]
    login.write("number.py", NUMBER)
    plain_id = start(login, "number", *plain, pause=1)
    id = start(login, "number", *limits, pause=1)
    done = ended(login.runner("wait", id), 91)
    at = login.told("status", id)
    assert (at["state"], at["restarts"], at["exit_code"]) == ("STOPPED", 1, 91)
    assert at["saved_step"] >= 1
    assert f"checkpoint at step {at['saved_step']} saved" in done.stderr
    log = login.runner("logs", id).stdout
    assert "stopped on SIGUSR1" in log
    assert "all 1 restarts are used" in log
    go_on = next(line for line in done.stderr.splitlines() if "go on:" in line)
    words = go_on.split("go on: ")[1].replace("STEP_SECONDS=1", "STEP_SECONDS=0")
    for option in (*limits, "--requeue", "--parsable"):
        words = words.replace(f" {option} ", " ", 1)
    again = login.sh(words.replace("launch", "launch --follow", 1))
    assert f"resumed at step {at['saved_step']}," in again
    assert login.told("result")["resumed_at_steps"][-1] == at["saved_step"]

    # One that asks for nothing gets SIGTERM at the end of its time, and KillWait to save.
    ended(login.runner("wait", plain_id), 91, "stopped early (time limit): checkpoint at step")


def test_a_job_cancelled_while_it_saves_keeps_the_checkpoint_before(login: Login) -> None:
    login.write("number.py", NUMBER)
    id = start(login, "number")
    until(login, trained(95))  # the first epoch has ended, with a checkpoint
    before = final_checkpoint(login, "runs/slow-1")
    login.sh("touch slow-disk")
    login.sh(f"scancel --batch --signal=USR1 {id}")
    until(login, "ls -A runs/slow-1/checkpoints | grep -v '^step-[0-9]*.[cj][ks][po][tn]*$'")
    assert login.runner("cancel", id).returncode == 0
    until(login, f'[ -z "$(squeue -h -j {id} -t R,CG,PD)" ]')
    assert final_checkpoint(login, "runs/slow-1") == before
    assert login.runner("wait", id).returncode == 86
    login.sh("rm slow-disk")
    inside = f"apptainer exec {UNPACKED} python number.py {' '.join(SHORT)}"
    told = login.sh(f"{inside} --output on --resume runs/slow-1")
    assert "resumed at step 90, epoch 2" in told


def test_the_pages_script_with_ddp_saves_and_resumes(login: Login) -> None:
    page = ROOT / "docs/start/own-trainer.md"
    (text,) = (b.text for b in blocks(page) if b.marks.get("file") == "stop_ddp.py")
    words = ["-N", "2", "--requeue", "--parsable", login.write("stop_ddp.py", text)]
    id = login.launch(*words, "--", "2000").stdout.strip()
    until(login, "grep -qs 'begins at step 0' runs/*/logs/job.log")
    login.sh(f"scancel --batch --signal=USR1 {id}")
    done = ended(login.runner("logs", "--follow", id), 0, "restart 1 of 10")
    resumed = re.findall(r"begins at step (\d+)", done.stdout)
    assert len(resumed) == 2
    assert 0 < int(resumed[1]) < 2000
    assert "weights equal on all ranks" in done.stdout + done.stderr


def test_a_trainer_of_ones_own_saves_and_goes_on(login: Login) -> None:
    """SIGUSR1 reaches the ranks of both nodes: one that it missed would end at 100 twice."""
    trainer = login.write("own.py", OWN)
    id = login.launch("-N", "2", "--requeue", "--no-gate", "--parsable", trainer).stdout.strip()
    until(login, "[ $(grep -cs 'begins at' runs/*/logs/job.log) = 2 ]")
    time.sleep(1)
    login.sh(f"scancel --batch --signal=USR1 {id}")
    done = ended(login.runner("logs", "--follow", "--all", id), 0, "restart 1 of 10")
    assert done.stdout.count("ended at 100") == 2
    assert done.stdout.count("begins at 0") == 2
    assert login.told("status", id)["first_to_fail"] is None
