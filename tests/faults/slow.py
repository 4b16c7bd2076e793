"""Runs a recipe whose steps take STEP_SECONDS, on any machine; one rank may be odd on purpose.

In the folder in which the job runs, a file `rank-N` has the Python text that rank N runs before its
next step; `begin-N` is what it runs before all else; with a file `slow-disk` a checkpoint takes a
minute to write.
"""

import os
import runpy
import sys
import time
from pathlib import Path

rank = os.environ["SLURM_PROCID"]


def obey(name: str) -> None:
    """Run a file's text, once."""
    told = Path(f"{name}-{rank}")
    if told.exists():
        text = told.read_text()
        told.unlink()
        exec(text, {})


obey("begin")

from recipes import agreement, checkpoints, run  # noqa: E402

step_done = run.Run.step_done
write_atomically = checkpoints.write_atomically
agreement.AGREE_SECONDS = 0  # in each step


def slower_step(self, loss):  # type: ignore[no-untyped-def]
    """Count the step, slowly."""
    time.sleep(float(os.environ["STEP_SECONDS"]))
    obey("rank")
    step_done(self, loss)


def slower_write(path, data):  # type: ignore[no-untyped-def]
    """Write half of it, and wait."""

    if os.path.exists("slow-disk"):
        path.with_name(f".{path.name}.part").write_bytes(b"half a checkpoint")
        time.sleep(60)
    write_atomically(path, data)


run.Run.step_done = slower_step  # type: ignore[method-assign]
checkpoints.write_atomically = slower_write
sys.argv = sys.argv[1:]
runpy.run_module("recipes." + sys.argv[0], run_name="__main__")
