"""One fault's stage: a folder of the user's, clients, the moment of it, and what came of it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runners.core.job_record import JobPaths
from tests.cluster.design import CONTROLLER
from tests.cluster.state import USER

from . import left, machine, whole
from .client import Client
from .outcome import Outcome
from .place import IMAGE, Place

TRAINER = Path(__file__).with_name("slow.py")
SHORT = ["--epochs", "2", "--batch-size", "8", "--log-interval", "1", "--checkpoint-every", "10"]
STEP_SECONDS = 0.06
SLOW_COMMAND = """\
#!/bin/bash
{before}
/usr/bin/{name} "$@" > {folder}/answer; code=$?
touch {folder}/here
{after}
cat {folder}/answer; exit $code
"""
STEPS = 180  # 1,438 samples over 2 ranks of 8, twice
STARTED_SECONDS = 120  # an image's start, on a machine that has much else to do


class Broken(Exception):
    """What should have come did not come."""


class Scene:
    """What a fault's function is given. Times are seconds of this machine's monotonic clock."""

    def __init__(self, place: Place, outcome: Outcome, folder: str) -> None:
        self.place, self.outcome, self.folder = place, outcome, folder
        self.clients: list[Client] = []
        self.struck = 0.0
        self.said_before: dict[Client, int] = {}
        self.name = ""

    @property
    def here(self) -> Path:
        """The folder, as this machine sees it."""
        return self.place.host_path(self.folder)

    def write(self, name: str, text: str) -> None:
        """Put a file into the folder, whole at once."""
        part = self.here / f"{name}.new"
        part.write_text(text)
        part.replace(self.here / name)

    # Clients

    def runner(self, *words: str, env: dict[str, str] | None = None) -> Client:
        """Start `runner` in the background."""
        client = Client(self.place, self.folder, ["runner", *words], env or {})
        self.clients.append(client)
        return client

    def launch(
        self,
        *options: str,
        step: float = STEP_SECONDS,
        image: str = IMAGE,
        trainer: str = "",
        follow: bool = True,
        env: dict[str, str] | None = None,
    ) -> Client:
        """Launch the slow recipe, or another trainer, on both nodes, followed."""
        words = ["launch", "--image", image, "-N", "2", "--env", f"STEP_SECONDS={step}", *options]
        if "--mem" not in options:
            words += ["--mem", "2000"]
        if follow:
            words.append("--follow")
        words += [trainer, "--"] if trainer else [TRAINER.name, "--", "torch_mnist"]
        return self.runner(*words, *SHORT, env=env)

    def slow_command(self, name: str, before: str, after: str = ":") -> None:
        """Put something before and after a command of Slurm's, for clients with `slow_path`.

        Once it is there, so is the file `here`.
        """
        (self.here / "bin").mkdir(exist_ok=True)
        path = self.here / "bin" / name
        path.write_text(
            SLOW_COMMAND.format(folder=self.folder, name=name, before=before, after=after)
        )
        path.chmod(0o755)

    @property
    def slow_path(self) -> dict[str, str]:
        """The environment in which commands are slow."""
        return {"PATH": f"{self.folder}/bin:/opt/runner/bin:/usr/local/bin:/usr/bin:/bin"}

    def ask(self, *words: str, seconds: float = 90) -> subprocess.CompletedProcess[str]:
        """Run `runner` to its end."""
        command = ["env", "-C", self.folder, "runner", *words]
        return self.place.on(CONTROLLER, *command, seconds=seconds)

    # Waiting

    def until(
        self, condition: Callable[[], Any], what: str, seconds: float = STARTED_SECONDS
    ) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Broken(f"{what}: not within {seconds:.0f} s{self._told()}")
            if any(client.ended() for client in self.clients[:1]) and not condition():
                raise Broken(f"{what}: the client has ended{self._told()}")
            time.sleep(0.05)

    def _told(self) -> str:
        return "".join(f"\n{client.err[-1500:]}" for client in self.clients[:1])

    def training(self, step: int = 15) -> dict[int, machine.Rank]:
        """Wait until the run has come to a step; return its ranks."""
        self.until(lambda: self.steps() >= step, f"step {step}")
        return machine.ranks(self.place)

    def steps(self) -> int:
        """The number of steps that the last run tells of."""
        metrics = self.run.root / "metrics.jsonl" if self.runs() else None
        return metrics.read_text().count('"event": "step"') if metrics and metrics.exists() else 0

    def rates(self) -> list[float]:
        """The samples per second of each step of the last run but the first."""
        lines = map(json.loads, (self.run.root / "metrics.jsonl").read_text().splitlines())
        return [line["samples_per_s"] for line in lines if line["event"] == "step"][1:]

    def runs(self) -> list[Path]:
        """The runs' folders."""
        folder = self.here / "runs"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    @property
    def run(self) -> JobPaths:
        """The last run."""
        return JobPaths(self.runs()[-1])

    @property
    def id(self) -> str:
        """The last run's job number."""
        return str(json.loads(self.run.job.read_text())["id"])

    # The fault, and after it

    def strike(self, *acts: Callable[[], object]) -> None:
        """Do it, and note when."""
        self.said_before = {client: len(client.err) for client in self.clients}
        for act in acts:
            act()
        self.struck = time.monotonic()

    def lasted(self, seconds: float) -> bool:
        """Whether so much time has passed since the fault."""
        return time.monotonic() - self.struck >= seconds

    def said(self, client: Client) -> str:
        """What a client has said since the fault."""
        return client.err[self.said_before.get(client, 0) :]

    def ends(self, client: Client, code: int | None, *says: str, within: float) -> None:
        """Wait for a client's end; its code and its words must be these. The first are quoted.

        With None any code will do that is not 0.
        """
        try:
            self.outcome.code = client.wait(self.struck + within * 3 + 30 - time.monotonic())
        except subprocess.TimeoutExpired:
            raise Broken(f"the client goes on: {self.said(client)[-1500:]}") from None
        self.outcome.seconds = time.monotonic() - self.struck
        right = self.outcome.code == code if code is not None else self.outcome.code != 0
        self.expect(right, f"exit code {self.outcome.code}, not {code}")
        self.expect(self.outcome.seconds <= within, f"it took more than {within:.0f} s")
        self.says(self.said(client), *says)

    def explained(self, name: str) -> None:
        """Say what `runner explain` must call it afterwards."""
        self.name = name

    def says(self, told: str, *says: str) -> None:
        """Check that each of these was said; quote the line with the first of them."""
        for words in says:
            self.expect(words in told, f"nothing is said of {words!r}:\n{told[-2500:]}")
        # That of the rank that failed is a part of the explanation.
        others = re.sub(r"^  traceback: +Traceback", "", told, flags=re.MULTILINE)
        self.expect("Traceback" not in others, f"a traceback:\n{told[-2500:]}")
        lines = [" ".join(line.split()) for line in told.splitlines() if says and says[0] in line]
        self.outcome.said = self.outcome.said or (lines[0] if lines else "")

    def expect(self, right: bool, problem: str) -> None:
        """Note what should not be so."""
        if not right:
            self.outcome.problems.append(problem)

    def state(self) -> str:
        """What Slurm's queue says of the last job, "" when it has none."""
        done = self.place.on(CONTROLLER, "squeue", "-h", "-j", self.id, "-o", "%T")
        return done.stdout.strip()

    def gone(self, seconds: float = 60) -> None:
        """Wait until the job is not in the queue any more."""
        self.until_quietly(
            lambda: self.state() in ("", "COMPLETED", "FAILED", "CANCELLED"), seconds
        )

    def until_quietly(self, condition: Callable[[], Any], seconds: float) -> None:
        """Wait for a condition, without looking at clients."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Broken(f"not within {seconds:.0f} s{self._told()}")
            time.sleep(0.2)


def check_afterwards(scene: Scene, before: left.Snapshot) -> None:
    """Fill in what was left and whether results are whole."""
    outcome = scene.outcome
    outcome.left, outcome.gone = left.after(scene.place, before)
    for run in scene.runs():
        outcome.results += whole.problems(run)
        if (run / "job.json").exists():
            outcome.explained = _explained(scene, run)
    right = not scene.name or outcome.explained == scene.name
    scene.expect(right, f"explained as {outcome.explained}, not {scene.name}")


def _explained(scene: Scene, run: Path) -> str:
    done = scene.ask("explain", "--json", f"runs/{run.name}")
    try:
        return str(json.loads(done.stdout)["diagnoses"][0]["id"])
    except (ValueError, KeyError, IndexError):
        return ""


def folder_for(place: Place, name: str) -> str:
    """Make a folder of the user's, with the trainer in it."""
    folder = f"/scratch/{USER}/{name}"
    place.on(CONTROLLER, "mkdir", folder)
    (place.host_path(folder) / TRAINER.name).write_text(TRAINER.read_text())
    return folder
