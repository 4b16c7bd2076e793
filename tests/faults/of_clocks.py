"""Clocks that jump: the ranks', the client's, and a node's, which signs Slurm's messages by it.

By a library of our own in front of the C library (step.c).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster import host
from tests.cluster.shell import run
from tests.cluster.state import USER

from . import machine
from .fault import CLOCKS, fault
from .scene import Scene

SOURCE = Path(__file__).with_name("step.c")
LIBRARY = f"/home/{USER}/step.so"
TEN_MINUTES = f"/home/{USER}/ten-minutes"


def _bring(scene: Scene) -> None:
    """Make the library on this machine."""
    if not shutil.which("gcc"):
        host.install(["gcc", "libc6-dev"])
    home = scene.place.state.home / USER
    run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(home / Path(LIBRARY).name), str(SOURCE)])
    (home / Path(TEN_MINUTES).name).write_text("600")


def _faked(scene: Scene) -> dict[str, str]:
    """Variables under which the clock is off by what the file `clock` says, which may change."""
    _bring(scene)
    scene.write("clock", "0")
    return {"LD_PRELOAD": LIBRARY, "CLOCK_STEP": f"{scene.folder}/clock"}


def _step_of_ranks(scene: Scene, step: str) -> None:
    scene.explained("completed")
    env = [f"--env={name}={value}" for name, value in _faked(scene).items()]
    client = scene.launch(*env, "--bind", LIBRARY)
    scene.training()
    scene.strike(lambda: scene.write("clock", step))
    scene.ends(client, 0, "completed", within=60)
    rates = scene.rates()
    scene.expect(min(rates) > 0 and max(rates) < 10 * min(rates), f"rates from {rates}")


@fault(CLOCKS, "the ranks' clock steps an hour ahead in training")
def clock_ahead(scene: Scene) -> None:
    """Rates and durations are measured by the monotonic clock."""
    _step_of_ranks(scene, "3600")


@fault(CLOCKS, "the ranks' clock steps an hour back in training")
def clock_back(scene: Scene) -> None:
    """Rates and durations are measured by the monotonic clock."""
    _step_of_ranks(scene, "-3600")


@fault(CLOCKS, "the clock of the user's command steps an hour back while it follows")
def clock_of_client(scene: Scene) -> None:
    """It must neither hang nor give up."""
    scene.explained("completed")
    client = scene.launch(env=_faked(scene))
    scene.training()
    scene.strike(lambda: scene.write("clock", "-3600"))
    scene.ends(client, 0, "completed", within=60)


@fault(CLOCKS, "the second node's clock is 10 min ahead of the others' when the job starts")
def clock_of_node(scene: Scene) -> None:
    """Munge refuses what was signed so long ago."""
    scene.explained("slurm-authentication")
    _bring(scene)
    _restart_munged(scene, ["env", f"LD_PRELOAD={LIBRARY}", f"CLOCK_STEP={TEN_MINUTES}"])
    scene.strike()
    client = scene.launch()
    scene.ends(client, 141, "could not start the ranks on n2", within=120)
    _restart_munged(scene, [])


def _restart_munged(scene: Scene, before: list[str]) -> None:
    machine.kill(*machine.named(scene.place, "n2", "munged"))
    own = ["setpriv", "--reuid=munge", "--regid=munge", "--init-groups"]
    done = scene.place.on("n2", *own, *before, "munged", "--force", user="root")
    scene.expect(done.returncode == 0, f"munged did not start: {done.stderr}")
