"""The way to the test cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.state import CHECKOUT, USER, State

from .errors import BenchError

IMAGE = f"/scratch/{USER}/images/horovod_cpu.sif"


def on_host(path: str) -> Path:
    """Where a path below the cluster's /scratch is on the host."""
    return State.locate().scratch / Path(path).relative_to("/scratch")


def run(argv: Sequence[str], node: str = "login") -> str:
    """Run a command as the user on a node and return its output; BenchError when it fails."""
    command = [sys.executable, "-m", "tests.cluster", "exec", "--node", node, "--", *argv]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise BenchError(f"exit code {done.returncode} on {node} from: {' '.join(argv)}\n{tail}")
    return done.stdout


def login_program(name: str, *arguments: str) -> Any:
    """Run `tests/bench/login/NAME.py` on the login node and return the JSON it prints."""
    program = ["python3", "-B", "-m", f"tests.bench.login.{name}", *arguments]
    return json.loads(run(["env", "-C", "/opt/kit", *program]))


def require_image() -> None:
    """BenchError unless the CPU image is where the cluster's user has it."""
    if not on_host(IMAGE).exists():
        raise BenchError(f"{IMAGE} does not exist on the cluster: make build-cpu")
