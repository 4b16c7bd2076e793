"""The GPUs of this machine, and launches on them."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUERY = ("name", "driver_version", "memory.total", "compute_cap")
SECONDS = 240.0  # for one launch


class Failed(Exception):
    """A check did not see what it must see."""


class Absent(Exception):
    """This machine, or the image, has not what a check is about."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, as nvidia-smi tells it."""

    name: str
    driver: str
    memory: str
    capability: str


def gpus() -> list[Gpu]:
    """Return this machine's GPUs. Raises Absent, with the reason."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"no NVIDIA GPU: nvidia-smi does not run here ({error})") from error
    rows = [row for row in csv.reader(done.stdout.splitlines(), skipinitialspace=True) if row]
    if done.returncode or not rows or any(len(row) != len(QUERY) for row in rows):
        raise Absent(f"no NVIDIA GPU: nvidia-smi says {(done.stdout + done.stderr).strip()!r}")
    return [Gpu(*row) for row in rows]


@dataclass(frozen=True)
class Bench:
    """An image or a Python environment, and the folder in which its runs are kept."""

    image: Path
    folder: Path

    def runner(self, *words: str, code: int | None = 0, **environ: str) -> str:
        """Run the command; return its output. Raises Failed on any exit code but `code`.

        With `code=None` any but 0 is right.
        """
        command = [sys.executable, "-m", "runners", *words]
        root = str(Path(__file__).resolve().parents[2])
        env = {**os.environ, "PYTHONPATH": root, "RUNNER_SCRATCH": str(self.folder), **environ}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"no end after {SECONDS:g} s: {' '.join(words)}") from error
        output = done.stdout + done.stderr
        if done.returncode != code and (code is not None or done.returncode == 0):
            raise Failed(f"exit code {done.returncode}: {' '.join(words)}\n{output[-2000:]}")
        return output

    def launch(self, *words: str, code: int | None = 0, gpus: int = 1, **environ: str) -> str:
        """Launch on this machine and wait. See `runner`."""
        wait = [] if "--follow" in words else ["--wait"]
        place = ["--scheduler", "local", "--image", str(self.image), *wait]
        place += ["--gpus", str(gpus)] if gpus else []
        kind = ["--runtime", "none"] if (self.image / "bin/python3").exists() else []
        return self.runner("launch", *place, *kind, *words, code=code, **environ)

    def result(self) -> dict[str, Any]:
        """Return the newest run's result. Raises Failed without one."""
        return read(self._newest("result.json"))

    def losses(self) -> list[float]:
        """Return the loss of each epoch of the newest run. Raises Failed without one."""
        text = self._newest("metrics.jsonl").read_text(encoding="utf-8")
        lines = map(json.loads, text.splitlines())
        return [float(line["loss"]) for line in lines if line["event"] == "epoch"]

    def _newest(self, name: str) -> Path:
        files = list(self.folder.glob(f"runs/*/{name}"))
        if not files:
            raise Failed(f"no run has a {name}")
        return max(files, key=lambda path: path.stat().st_mtime)


def read(result: Path) -> dict[str, Any]:
    """Return a result.json."""
    content: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return content
