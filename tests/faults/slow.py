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

from recipes import common  # noqa: E402
from recipes.common import files  # noqa: E402

step_done = common.Run.step_done
write_atomically = files.write_atomically


def slower_step(self, losses, stop):  # type: ignore[no-untyped-def]
    """Count the step, slowly."""
    time.sleep(float(os.environ["STEP_SECONDS"]))
    obey("rank")
    step_done(self, losses, stop=stop)


def slower_write(path, write):  # type: ignore[no-untyped-def]
    """Write half of it, and wait."""

    def slowly(stream):  # type: ignore[no-untyped-def]
        stream.write(b"half a checkpoint")
        time.sleep(60)

    return write_atomically(path, slowly if os.path.exists("slow-disk") else write)


common.Run.step_done = slower_step  # type: ignore[method-assign]
common.write_atomically = slower_write
sys.argv = sys.argv[1:]
runpy.run_module("recipes." + sys.argv[0], run_name="__main__")
