"""Slurm's controller stops while a client submits, waits and follows."""

from __future__ import annotations

import signal
import time

from tests.cluster.design import CONTROLLER as LOGIN

from . import machine
from .fault import CONTROLLER, fault
from .scene import Scene

# Slurm writes a new job down within 5 s (SAVE_MAX_WAIT of its state_save.c); a controller that is
# killed before has forgotten it, and the client then ends with 88.
SECONDS_UNTIL_SAVED = 6.0


def _controller(scene: Scene) -> list[int]:
    found = machine.named(scene.place, LOGIN, "slurmctld")
    assert found, "no slurmctld"
    return found


def _freeze(scene: Scene) -> None:
    machine.send(signal.SIGSTOP, _controller(scene))


def _thaw(scene: Scene) -> None:
    machine.send(signal.SIGCONT, _controller(scene))


def _kill(scene: Scene) -> None:
    machine.kill(*_controller(scene))


def _start(scene: Scene) -> None:
    done = scene.place.on(LOGIN, "slurmctld", user="root")
    scene.expect(done.returncode == 0, f"slurmctld did not come back: {done.stderr}")


@fault(CONTROLLER, "stopped before a job is submitted", "controller_before")
def before(scene: Scene) -> None:
    """The job is not submitted, and nothing is written."""
    scene.strike(lambda: _kill(scene))
    client = scene.launch()
    scene.ends(client, 1, "controller does not answer", "nothing was submitted", within=40)
    scene.expect(not scene.runs(), "a run's folder is left")
    _start(scene)


@fault(
    CONTROLLER, "frozen while sbatch waits for its answer, goes on later", "controller_submitting"
)
def submitting(scene: Scene) -> None:
    """sbatch gives up; that the job was not taken nobody can know then."""
    scene.slow_command("sbatch", "touch begun; while [ ! -e go ]; do sleep 0.1; done")
    client = scene.launch(follow=False, env=scene.slow_path)
    scene.until((scene.here / "begun").exists, "sbatch", 60)
    scene.strike(lambda: _freeze(scene), lambda: scene.write("go", ""))
    scene.ends(client, 1, "not known", within=100)
    _thaw(scene)
    time.sleep(5)
    queue = scene.place.on(LOGIN, "squeue", "-h", "--me", "-o", "%i %T").stdout
    scene.expect("RUNNING" not in queue, f"a job runs that nobody knows of: {queue}")


@fault(CONTROLLER, "killed while the job waits in the queue, started again 15 s later")
def waiting(scene: Scene) -> None:
    """The client waits on, and the job starts."""
    scene.explained("completed")
    client = scene.launch("--sbatch-arg=--begin=now+20", step=0)
    scene.until(lambda: "pending" in client.err, "pending")
    time.sleep(SECONDS_UNTIL_SAVED)
    scene.strike(lambda: _kill(scene))
    scene.until(lambda: "does not answer" in scene.said(client), "word of it", 60)
    scene.until_quietly(lambda: scene.lasted(15), 20)
    _start(scene)
    scene.ends(client, 0, "still waiting", within=120)


@fault(CONTROLLER, "killed while the job is followed, started again after its end")
def following(scene: Scene) -> None:
    """Steps run without it; the log and the record of the end are on disk."""
    scene.explained("completed")
    client = scene.launch(step=0.2)  # the client asks Slurm every 10 s
    scene.training()
    scene.strike(lambda: _kill(scene))
    scene.until(lambda: "does not answer" in scene.said(client), "word of it", 60)
    scene.until_quietly(lambda: (scene.run.root / "result.json").exists(), 90)
    time.sleep(3)
    _start(scene)
    scene.ends(client, 0, "does not answer", within=90)
