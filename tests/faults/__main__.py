"""The faults: python -m tests.faults [--only NAME]...; see --help."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from subprocess import SubprocessError

from containers import image_catalogue
from tests.cluster.design import CONTROLLER
from tests.cluster.shell import ClusterError

from . import (
    left,
    of_clients,
    of_clocks,
    of_controller,
    of_jobs,
    of_nodes,
    of_ranks,
    of_storage,
    outcome,
    table,
    whole,
)
from .fault import Fault, in_order
from .outcome import Outcome
from .place import Place, place
from .scene import Broken, Scene, check_afterwards, folder_for

RESULTS = Path(__file__).with_name("RESULTS.md")
BUILD = image_catalogue.CHECKOUT / "build" / "faults"
# Each enters its faults into the catalogue.
MODULES = (of_ranks, of_nodes, of_controller, of_storage, of_clocks, of_jobs, of_clients)


def parser() -> argparse.ArgumentParser:
    """All options."""
    made = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    names = [fault.name for fault in in_order()]
    made.add_argument(
        "--only", action="append", metavar="NAME", choices=names, help=", ".join(names)
    )
    made.add_argument("--table", action="store_true", help="only write the table again")
    made.add_argument("--state", metavar="DIR", help="the cluster's folder")
    return made


def finish_one(here: Place) -> str:
    """Train once to the end; return the checksum of what is there then."""
    made = Outcome("finished", "")
    scene = Scene(here, made, folder_for(here, made.name))
    client = scene.launch(step=0)
    code, said = client.wait(180), client.err
    client.end()
    if code:
        raise ClusterError(f"the job that nothing befalls failed:\n{said}")
    return whole.digest(scene.here)


def strike(here: Place, fault: Fault, finished: str) -> Outcome:
    """Cause one fault, and look at what came of it."""
    began = time.monotonic()
    made = Outcome(fault.name, fault.what)
    before = left.snapshot(here)
    scene = Scene(here, made, folder_for(here, fault.name))
    try:
        fault.act(scene)
        check_afterwards(scene, before)
    except (Broken, OSError, AssertionError, SubprocessError, ClusterError) as error:
        made.problems.append(f"{type(error).__name__}: {error}")
    finally:
        _keep_log(scene)
        for client in scene.clients:
            client.end()
    if whole.digest(here.host_path("/scratch/ada/finished")) != finished:
        made.results.append("the finished run beside it has changed")
    made.whole = time.monotonic() - began
    _tidy(here, scene)
    return made


def _keep_log(scene: Scene) -> None:
    """Keep what the job and the clients said, for who looks into a fault."""
    BUILD.mkdir(parents=True, exist_ok=True)
    logs = [path.read_text(errors="replace") for path in scene.here.glob("runs/*/logs/job.log")]
    texts = [*logs, *(client.err for client in scene.clients)]
    (BUILD / f"{scene.outcome.name}.log").write_text("\n=== \n".join(texts))


def _tidy(here: Place, scene: Scene) -> None:
    """Let the next fault find a cluster that is well, and nothing of this one."""
    here.on(CONTROLLER, "scancel", "--user=ada")
    here.up()
    here.on(CONTROLLER, "rm", "-rf", scene.folder)


def run(wanted: list[Fault], folder: str | None) -> None:
    """Cause each fault; each outcome is kept at once."""
    with place(folder) as here:
        finished = finish_one(here)
        for fault in wanted:
            made = strike(here, fault, finished)
            made.save(BUILD)
            table.show(made)


def main() -> int:
    """Run what is asked for, write the table; 1 when something is not as it should be."""
    # The cluster is ended also by `kill`, and by a Ctrl-C that a shell's `&` has switched off.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    options = parser().parse_args()
    chosen = [fault for fault in in_order() if not options.only or fault.name in options.only]
    if not options.table:
        run(chosen, options.state)
    kept = [path for fault in in_order() if (path := BUILD / f"{fault.name}.json").exists()]
    outcomes = [outcome.load(path) for path in kept]
    wrong = [made for made in outcomes if table.wrong(made)]
    print(f"{len(outcomes)} faults, {len(wrong)} with a problem")
    if len(outcomes) == len(in_order()):
        RESULTS.write_text(table.render(outcomes))
        print(RESULTS)
    else:
        print(f"{RESULTS} stays as it is: {len(in_order()) - len(outcomes)} were not caused yet")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
