"""Ranks that are killed, run out of memory or stop; the rendezvous, srun and the script killed."""

from __future__ import annotations

import signal
from functools import partial

from . import machine
from .fault import FAULTS, PROCESSES, Act, Fault, fault
from .scene import Scene

KILLED = "killed by signal 9 (SIGKILL)"


def _kill_a_rank(number: int, controller: str, scene: Scene) -> None:
    scene.explained("rank-killed")
    client = scene.launch("--controller", controller)
    rank = scene.training()[number]
    scene.strike(partial(machine.kill, rank.trainer))
    scene.ends(client, 137, f"rank {number}@{rank.node}", KILLED, within=15)


def _enter(name: str, what: str, act: Act) -> None:
    FAULTS.append(Fault(name, PROCESSES, what, act))


for controller, shown in (("gloo", "Gloo"), ("mpi", "MPI")):
    for number in (1, 0):
        _enter(
            f"rank-{number}-{controller}",
            f"`kill -9` of rank {number} ({shown})",
            partial(_kill_a_rank, number, controller),
        )


@fault(PROCESSES, "`kill -9` of the rendezvous (rank 0's shim) while the ranks meet")
def meeting(scene: Scene) -> None:
    """Rank 1 comes late; the others wait for it at the rendezvous."""
    scene.explained("rank-killed")
    scene.write("begin-1", "import time; time.sleep(30)")
    client = scene.launch("--controller", "gloo")
    scene.until(lambda: len(machine.ranks(scene.place)) == 2, "two ranks")
    rank = machine.ranks(scene.place)[0]
    scene.strike(partial(machine.kill, rank.shim))
    scene.ends(client, 137, "rank 0@n1", within=15)


@fault(PROCESSES, "`kill -9` of the rendezvous (rank 0's shim) in training")
def rendezvous(scene: Scene) -> None:
    """The store and the hub live in the shim."""
    scene.explained("rank-killed")
    client = scene.launch("--controller", "gloo")
    rank = scene.training()[0]
    scene.strike(partial(machine.kill, rank.shim))
    scene.ends(client, 137, "rank 0@n1", within=15)


@fault(PROCESSES, "`kill -9` of rank 0 while it writes a checkpoint")
def saving(scene: Scene) -> None:
    """The checkpoint before stays."""
    scene.explained("rank-killed")
    client = scene.launch()
    scene.training(25)
    scene.write("slow-disk", "")
    scene.until(lambda: list(scene.run.checkpoints.glob(".*.part")), "a checkpoint begun")
    scene.strike(partial(machine.kill, machine.ranks(scene.place)[0].trainer))
    scene.ends(client, 137, "rank 0@n1", KILLED, within=15)
    scene.expect(len(list(scene.run.checkpoints.glob("step-*.ckpt"))) >= 2, "checkpoints are lost")


@fault(PROCESSES, "rank 1 takes more memory than the job has")
def memory(scene: Scene) -> None:
    """The kernel kills it, in Slurm's group for the task."""
    scene.explained("out-of-memory")
    client = scene.launch("--mem", "1500")
    scene.training()
    scene.strike(lambda: scene.write("rank-1", "eaten = bytearray(4 * 2**30)"))
    scene.ends(client, 137, "rank 1@n2", within=20)


@fault(PROCESSES, "`kill -9` of srun")
def srun(scene: Scene) -> None:
    """The ranks must not go on without it."""
    scene.explained("launcher-killed")
    client = scene.launch()
    scene.training()
    scene.strike(lambda: machine.kill(*machine.named(scene.place, "n1", "srun")))
    scene.ends(client, 137, "srun, which holds the ranks together", within=30)


@fault(PROCESSES, "`kill -9` of the job's script")
def script(scene: Scene) -> None:
    """It cannot write its record any more; the ranks get SIGTERM, save and stop."""
    scene.explained("stopped-early")
    client = scene.launch()
    scene.training()
    scene.strike(lambda: machine.kill(*_scripts(scene)))
    scene.ends(client, 91, "checkpoint at step", within=40)


def _scripts(scene: Scene) -> list[int]:
    found = machine.named(scene.place, "n1", "slurm_script")
    assert found, "no script"
    return found


@fault(PROCESSES, "rank 1 stops (SIGSTOP) for good; cancelled when it was noticed")
def stall(scene: Scene) -> None:
    """Nothing ends by itself; the client says who lags."""
    scene.explained("cancelled")
    client = scene.launch("--stall-after", "10")
    rank = scene.training()[1]
    scene.strike(lambda: machine.send(signal.SIGSTOP, [rank.trainer]))
    scene.until(lambda: "no step for" in scene.said(client), "word of the stall", 60)
    scene.says(scene.said(client), "no step for", "rank 1@n2")
    for command in ("status", "explain"):
        shown = scene.runner(command, scene.id, env={"RUNNER_STALL_AFTER": "5"})
        shown.wait(60)
        scene.expect("rank 1@n2 is stopped" in shown.out, f"{command}: {shown.out}")
    scene.ask("cancel", scene.id)
    scene.ends(client, 86, within=60)
