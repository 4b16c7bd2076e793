"""Plans and really launches a cell on a cluster of its release."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from containers import image_catalogue
from tests.cluster.shell import ClusterError
from tests.cluster.state import USER, State

from . import outcome, verdict
from .cells import Cell
from .outcome import Outcome
from .verdict import Verdict

TRAINER = Path(__file__).with_name("world.py")
SECONDS = 150  # for a cell, all told; a world takes 5 to 10 where nothing else runs
MINUTES = 2  # for its job: Slurm's time limit
PART = "\n=== "
# $1: the folder of this cell; the rest: options of `runner`.
PLAN = f"""\
cd "$1"; shift
printf '%splan\n' '{PART}'; runner plan --json "$@" world.py
"""
FORCE = 'set -- --force "$@" world.py\n'
# What is offered first, as it is typed; a plan that offers nothing ends this.
REMEDY = """\
offer=$(runner plan "$@" world.py | sed -n 's/^try: runner launch //p;T;q')
[ -n "$offer" ] || exit
eval set -- "$offer"
"""
LAUNCH = f"""\
printf '%slaunch\n' '{PART}'
timeout {SECONDS - 20} runner launch --time={MINUTES} --wait "$@" 2>&1
code=$?
[ $code -ne {outcome.TIMED_OUT} ] || runner cancel runs/*/ > /dev/null 2>&1
printf '%scode\n%s\n' '{PART}' $code
printf '%slog\n' '{PART}'; cat runs/*/logs/job.log
"""


@dataclass(frozen=True)
class Result:
    """A cell, what the plan says of it, and what happened."""

    cell: Cell
    verdict: Verdict
    real: Outcome

    @property
    def disagreement(self) -> str:
        """Why the two do not go together, "" when they do."""
        return verdict.disagreement(self.verdict, self.real)

    @property
    def mends(self) -> bool:
        """Whether a remedy led to one world."""
        return self.real.kind == outcome.WORLD


@dataclass(frozen=True)
class Cluster:
    """A running cluster, and where the images are on it."""

    state: State
    images: Mapping[str, str]

    def run(self, cell: Cell) -> Result:
        """Plan a cell, and launch it whatever the plan says."""
        return self._result(cell, PLAN + FORCE + LAUNCH)

    def remedy(self, cell: Cell) -> Result:
        """Plan a cell that is refused, and launch what is offered instead first."""
        return self._result(cell, PLAN + REMEDY + LAUNCH)

    def _result(self, cell: Cell, script: str) -> Result:
        began = time.monotonic()
        text = self._ask(cell, script)
        seconds = round(time.monotonic() - began, 1)
        parts = dict(part.split("\n", 1) for part in text.split(PART)[1:])
        if not parts.get("plan"):
            raise ClusterError(f"{cell.name}: runner plan says nothing on {self.state.root}")
        if "log" not in parts:
            real = Outcome(outcome.HANG, outcome.last_line(text), seconds)
        else:
            said = parts["launch"] + parts["log"]
            real = outcome.classify(int(parts["code"]), said, seconds)
        return Result(cell, verdict.read(json.loads(parts["plan"])), real)

    def _ask(self, cell: Cell, script: str) -> str:
        """A new folder with the trainer, the script in it, and the folder's end."""
        folder = f"/scratch/{USER}/matrix/{cell.name}"
        place = shlex.quote(folder)
        put = f"rm -rf {place}; mkdir -p {place}; cat > {place}/world.py"
        self.exec(["sh", "-c", put], TRAINER.read_text(encoding="utf-8"))
        options = cell.options(self.images[cell.image])
        said = self.exec(["bash", "-c", script, "bash", folder, *options])
        self.exec(["rm", "-rf", folder])
        return said

    def exec(self, argv: Sequence[str], given: str = "") -> str:
        """Run a command as the user on the login node; what it printed, and what a slow one has."""
        command = [sys.executable, "-m", "tests.cluster", "--state", str(self.state.root), "exec"]
        try:
            done = subprocess.run(
                [*command, "--", *argv],
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                cwd=image_catalogue.CHECKOUT,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            said = slow.stdout or b""
            return said.decode(errors="replace") if isinstance(said, bytes) else said
        return done.stdout
