"""Nodes that are lost: slurmd killed, power off, network cut, or not there when the job starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import machine
from .fault import NODES, fault
from .scene import Scene

LOST = "node failure"
# Slurm looks for its daemons every SlurmdTimeout / 3, and waits for a silent one that long: 30 s.
SECONDS = 100.0


def _lose(scene: Scene, strike: Callable[[], object], mend: Callable[[], None]) -> None:
    scene.explained("node-lost")
    client = scene.launch(step=1)
    scene.training(3)
    scene.strike(strike)
    scene.ends(client, 85, LOST, within=SECONDS)
    mend()


def _kill_slurmd(scene: Scene, node: str) -> None:
    machine.kill(*machine.named(scene.place, node, "slurmd"))


def _restart_slurmd(scene: Scene, node: str) -> None:
    done = scene.place.on(node, "slurmd", user="root")
    scene.expect(done.returncode == 0, f"slurmd did not come back: {done.stderr}")


@fault(NODES, "slurmd of the second node killed, started again afterwards")
def slurmd(scene: Scene) -> None:
    """Its ranks go on, until Slurm gives the node up."""
    _lose(scene, partial(_kill_slurmd, scene, "n2"), partial(_restart_slurmd, scene, "n2"))


@fault(NODES, "slurmd of the script's node killed, started again afterwards")
def slurmd_of_script(scene: Scene) -> None:
    """The script goes on without it."""
    _lose(scene, partial(_kill_slurmd, scene, "n1"), partial(_restart_slurmd, scene, "n1"))


@fault(NODES, "the second node loses its power")
def power(scene: Scene) -> None:
    """Nobody hears that its ranks have ended."""
    place = scene.place
    _lose(scene, partial(machine.power_off, place, "n2"), partial(machine.power_on, place, "n2"))


@fault(NODES, "the script's node loses its power")
def power_of_script(scene: Scene) -> None:
    """Nobody is left who could write a record."""
    place = scene.place
    _lose(scene, partial(machine.power_off, place, "n1"), partial(machine.power_on, place, "n1"))


@fault(NODES, "the second node's network cut, plugged in again afterwards")
def network(scene: Scene) -> None:
    """No packet comes back, so no connection breaks by itself."""
    cut = partial(machine.cut_network, scene.place, "n2")
    _lose(scene, cut, partial(machine.restore_network, scene.place, "n2"))


@fault(NODES, "the same for 10 s: the job goes on")
def network_shortly(scene: Scene) -> None:
    """TCP brings again what was lost."""
    scene.explained("completed")
    client = scene.launch()
    scene.training()
    scene.strike(partial(machine.cut_network, scene.place, "n2"))
    before = scene.steps()
    scene.until_quietly(lambda: scene.lasted(10), 20)
    scene.expect(scene.steps() <= before + 2, "the ranks went on without each other")
    machine.restore_network(scene.place, "n2")
    scene.ends(client, 0, within=60)


@fault(NODES, "slurmd of the second node killed before the job starts")
def launch_failed(scene: Scene) -> None:
    """Slurm believes the node well, and cannot start a step there."""
    scene.explained("ranks-not-started")
    scene.strike(partial(_kill_slurmd, scene, "n2"))
    client = scene.launch()
    # srun ends with Slurm's number of the error, as far as an exit code holds it.
    scene.ends(client, 233, "could not start the ranks on n2", within=SECONDS)
    _restart_slurmd(scene, "n2")
