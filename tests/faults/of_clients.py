"""A client that is told to end, at each phase; two that cancel at once; one that is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

from tests.cluster.design import CONTROLLER

from .client import Client
from .fault import CLIENTS, FAULTS, Fault, fault
from .scene import Scene

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR1: 138}


def _planning(scene: Scene) -> Client:
    """While it asks Slurm what it offers."""
    scene.slow_command("sinfo", "", "sleep 5")
    client = scene.launch(env=scene.slow_path)
    scene.until((scene.here / "here").exists, "sinfo")
    return client


def _submitting(scene: Scene) -> Client:
    """When Slurm has taken the job, and the client does not know its number yet."""
    scene.slow_command("sbatch", "", "sleep 3")
    client = scene.launch(env=scene.slow_path)
    scene.until((scene.here / "here").exists, "sbatch")
    return client


def _waiting(scene: Scene) -> Client:
    client = scene.launch("--sbatch-arg=--begin=now+60")
    scene.until(lambda: "pending" in client.err, "pending")
    return client


def _following(scene: Scene) -> Client:
    client = scene.launch()
    scene.training()
    return client


PHASES: dict[str, Callable[[Scene], Client]] = {
    "plans": _planning,
    "submits": _submitting,
    "waits for the job's start": _waiting,
    "follows": _following,
}


def _signal(phase: str, number: signal.Signals, scene: Scene) -> None:
    client = PHASES[phase](scene)
    act = client.interrupt if number == signal.SIGINT else partial(client.tell, number)
    scene.strike(act)
    if phase == "plans":
        scene.ends(client, CODES[number], "nothing was submitted", within=10)
        scene.expect(not scene.runs(), "a run's folder is left")
        return
    words = "goes on" if phase == "submits" else "left job"
    scene.ends(client, CODES[number], words, within=10)
    scene.expect(scene.state() in ("RUNNING", "PENDING"), "the job does not go on")
    done = scene.ask("cancel", scene.id)
    scene.expect(done.returncode == 0, f"it cannot be cancelled: {done.stderr}")
    scene.gone()


def _enter() -> None:
    for phase in PHASES:
        for number in CODES:
            how = "Ctrl-C" if number == signal.SIGINT else number.name
            act = partial(_signal, phase, number)
            name = f"client-{phase.split()[0]}-{number.name[3:].lower()}"
            FAULTS.append(Fault(name, CLIENTS, f"{how} while it {phase}", act))


_enter()


@fault(CLIENTS, "`kill -9` while it follows; another one follows on")
def client_killed(scene: Scene) -> None:
    """The job does not depend on it."""
    scene.explained("completed")
    client = scene.launch()
    scene.training()
    scene.strike(partial(client.tell, signal.SIGKILL))
    again = scene.runner("logs", "--follow", scene.id)
    scene.ends(again, 0, "completed", within=90)


@fault(CLIENTS, "two clients cancel at once")
def two_cancel(scene: Scene) -> None:
    """Both are told the truth, and so is who follows."""
    scene.explained("cancelled")
    client = scene.launch()
    scene.training()
    scene.strike()
    both = [scene.runner("cancel", scene.id) for _ in range(2)]
    codes = sorted(cancel.wait(30) for cancel in both)
    scene.expect(codes in ([0, 0], [0, 2]), f"they ended with {codes}: {[b.err for b in both]}")
    for cancel in both:
        scene.says(cancel.err)
    scene.ends(client, 86, "cancelled", within=40)
    scene.expect(scene.place.on(CONTROLLER, "squeue", "-h", "--me").stdout.count("\n") <= 1, "jobs")


@fault(CLIENTS, "the folder with the runs taken away while it follows")
def runs_gone(scene: Scene) -> None:
    """It cannot follow what is not there."""
    scene.explained("completed")
    client = scene.launch()
    scene.training()
    scene.strike(lambda: scene.run.root.rename(scene.here / "elsewhere"))
    scene.until_quietly(lambda: scene.lasted(3), 10)
    scene.strike(lambda: (scene.here / "elsewhere").rename(scene.here / "runs/slow-1"))
    scene.ends(client, 0, "completed", within=60)
