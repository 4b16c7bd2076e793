"""Signals to a job, its time limit, preemption, cancelling: what Slurm sends, at each phase."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.cluster.design import CONTROLLER

from . import machine
from .client import Client
from .fault import FAULTS, JOBS, Fault, fault
from .scene import Scene

STOPPED = "stopped early"


def _starting(scene: Scene, *options: str) -> Client:
    """The ranks have begun, and their imports have not ended."""
    client = scene.launch(*options, trainer="torch_mnist")
    scene.until(lambda: len(machine.ranks(scene.place)) == 2, "two ranks")
    return client


def _training(scene: Scene, *options: str) -> Client:
    client = scene.launch(*options)
    scene.training(25)
    return client


PHASES = {"starting": _starting, "training": _training}
# Signal -> (how it is sent, whether the ranks get it through the script)
SIGNALS = {"USR1": ("--batch", "--signal=USR1"), "TERM": ("--signal=TERM",)}


def _signal(phase: str, name: str, scene: Scene) -> None:
    scene.explained("stopped-early")
    client = PHASES[phase](scene, "--signal", "USR1@20")
    command = ("scancel", *SIGNALS[name], scene.id)
    scene.strike(lambda: scene.place.on(CONTROLLER, *command))
    scene.ends(client, 91, STOPPED, within=30)
    if phase == "training":
        scene.says(scene.said(client), "checkpoint at step", "go on:")


def _enter() -> None:
    for phase in PHASES:
        for name, options in SIGNALS.items():
            words = " ".join(("scancel", *options))
            what = f"SIG{name} to the job (`{words}`) while {phase}"
            FAULTS.append(
                Fault(f"{name.lower()}-{phase}", JOBS, what, partial(_signal, phase, name))
            )


_enter()


@fault(JOBS, "SIGUSR1 to the script of a job that was launched without `--signal`")
def usr1_unasked(scene: Scene) -> None:
    """Its default action ends the script; the record must not say that all was well."""
    scene.explained("script-killed")
    client = _training(scene)
    command = ("scancel", "--batch", "--signal=USR1", scene.id)
    scene.strike(lambda: scene.place.on(CONTROLLER, *command))
    scene.ends(client, 1, "SIGUSR1 ended the job's script", "--signal USR1@120", within=40)


def _cancel(scene: Scene, begin: Callable[[Scene], Client]) -> None:
    scene.explained("cancelled")
    client = begin(scene)
    scene.strike(lambda: scene.ask("cancel", scene.id))
    scene.ends(client, 86, "cancelled", within=30)


@fault(JOBS, "`runner cancel` while starting")
def cancel_starting(scene: Scene) -> None:
    """Nothing of it stays."""
    _cancel(scene, _starting)


@fault(JOBS, "`runner cancel` in training")
def cancel_training(scene: Scene) -> None:
    """Nothing of it stays."""
    _cancel(scene, _training)


@fault(JOBS, "its time limit, in training")
def time_limit(scene: Scene) -> None:
    """Slurm's shortest is a minute, and it looks every half."""
    scene.explained("stopped-early")
    client = scene.launch("--time", "1", step=1)
    scene.training(3)
    scene.strike()
    scene.ends(client, 91, STOPPED, "time limit", within=110)


@fault(JOBS, "preempted in training, comes back and ends")
def preempted(scene: Scene) -> None:
    """A job of a better partition takes both nodes for a moment."""
    scene.explained("completed")
    client = scene.launch("-p", "low", "--requeue")
    scene.training(25)
    other = ("sbatch", "-p", "high", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1")
    scene.strike(lambda: scene.place.on(CONTROLLER, *other))
    scene.ends(client, 0, "restart 1 of", within=120)
