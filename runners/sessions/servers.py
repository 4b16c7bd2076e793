"""JupyterLab and TensorBoard on a node: their drafts, their submission, coming back to them."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core import files, gpus, trust
from ..core.diagnosis import warning
from ..core.errors import NotFound, UsageError
from ..core.job_record import Job, JobPaths
from ..core.model import BindMount, RuntimeName
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import advice
from ..core.site import Site
from ..jobs import find_run
from ..jobs.find_run import Run, Runs
from ..launching import submit
from ..launching.run_folder import Draft
from ..schedulers import capabilities
from ..sites import named_site
from . import open_session, session_script
from .open_session import PreparedSession, SessionRequest
from .server_visit import ServerVisit

JUPYTER, TENSORBOARD = "jupyter", "tensorboard"
ONE_TASK = {"nodes": 1, "ntasks": 1, "cpus-per-task": 1}
NO_GPUS = {"gpus-per-node": "0"}  # also of an image for GPUs
WRITER = 'SummaryWriter(os.environ["OUTPUT_DIR"] + "/tensorboard"); its default is ./runs'


@dataclass(frozen=True)
class ServerDraft:
    """A server's job before anything is written, at a site; of `runs` it shows what they write."""

    job: Draft
    site: Site
    runs: tuple[JobPaths, ...] = ()


def jupyter(request: SessionRequest, listener: Listener) -> ServerDraft:
    """Return the draft of JupyterLab in the current folder; raise Refused where it cannot work."""
    ready = open_session.prepare(JUPYTER, request, listener)
    return _draft(JUPYTER, request, ready, os.getcwd())


def tensorboard(request: SessionRequest, shown: Runs, listener: Listener) -> ServerDraft:
    """Return the draft of TensorBoard for runs, in the image of the first unless another is named.

    Raises Refused where it cannot work, UsageError where that image is the choice of another user.
    """
    paths = [run for run, _ in shown]
    if request.flags.get("image") is None:
        trust.check(paths[0].root, os.environ)
    request = replace(request, flags=_for_one_task(request.flags, shown[0][1]))
    ready = open_session.prepare(TENSORBOARD, request, listener)
    ready = replace(ready, plan=_seeing(ready.plan, paths))
    return _draft(TENSORBOARD, request, ready, str(ready.paths.boards), tuple(paths))


def runs_to_show(names: Sequence[str], runs_dir: Path) -> Runs:
    """Return the runs of these names, by default the last that has written for TensorBoard.

    Raises NotFound.
    """
    if names:
        return [find_run.find(name, runs_dir) for name in names]
    runs = [run for run in find_run.all_runs(runs_dir) if _has_written(run[0])]
    if not runs:
        raise NotFound(
            f"no run in {runs_dir} has written for TensorBoard",
            "",
            "--runs-dir DIR",
            id="no-tensorboard-runs",
        )
    return runs[-1:]


def _has_written(run: JobPaths) -> bool:
    return run.tensorboard.is_dir() or bool(_profiles(run))


def _profiles(run: JobPaths) -> list[Path]:
    """Return the folders of TensorFlow's profiles, one for each rank and each time."""
    folders = (run.tensorboard, run.profile)
    return sorted(found for folder in folders for found in folder.glob("**/plugins/profile/*"))


def _is_server(job: Job) -> bool:
    """Whether a run is one of these servers, to which one can reconnect."""
    return job.typed.name in (JUPYTER, TENSORBOARD)


def session_meant(names: Sequence[str], runs: Runs) -> Run | None:
    """Return the server to reconnect to, which the only name means; None where runs are shown."""
    return runs[0] if len(names) == 1 and _is_server(runs[0][1]) else None


def _for_one_task(flags: Mapping[str, Any], first: Job) -> dict[str, Any]:
    """Return the flags for one task, in the image of a run, unless they say otherwise."""
    given = {name: value for name, value in flags.items() if value is not None}
    no_gpus = {} if set(gpus.SETTINGS) & set(given) else NO_GPUS
    settings = {**flags, **ONE_TASK, **no_gpus, **given}
    if "image" not in given and first.image:
        settings["image"] = first.image
        if "runtime" not in given and Path(first.image, "bin", "python").exists():
            settings["runtime"] = "none"
    return settings


def _seeing(plan: Plan, shown: Sequence[JobPaths]) -> Plan:
    """Bind the folders of runs into a plan, and warn of runs without events."""
    silent = [run.root.name for run in shown if not _has_written(run)]
    cautions = [
        warning("no-events", f"{name} has written nothing for TensorBoard so far", advice(WRITER))
        for name in silent
    ]
    plan = replace(plan, warnings=(*cautions, *plan.warnings))
    if plan.launching.runtime is RuntimeName.NONE:
        return plan
    binds = [BindMount(str(run.root), str(run.root), read_only=True) for run in shown]
    return replace(plan, binds=(*plan.binds, *binds))


def _draft(
    server: str,
    request: SessionRequest,
    ready: PreparedSession,
    folder: str,
    runs: tuple[JobPaths, ...] = (),
) -> ServerDraft:
    """Return the draft of a job that serves a folder, to its own node alone or to this one."""
    plan, paths = ready.plan, ready.paths
    elsewhere = capabilities(plan.launching.scheduler).queue and not request.loopback
    towards = socket.gethostname() if elsewhere else ""
    text = session_script.served(plan, paths, os.getcwd(), server, folder, towards)
    draft = Draft(plan, paths, text, request.typed, private=True)
    return ServerDraft(draft, ready.site, runs)


def serve(made: ServerDraft) -> Job:
    """Submit a server; raises as `submit.drafted`."""
    (job,) = submit.drafted([made.job])
    boards = made.job.paths.boards
    if made.runs:
        boards.mkdir()
    for run in made.runs:  # one that has written nothing yet may do so later
        (boards / run.root.name).symlink_to(run.tensorboard)
        _link_profiles(run, boards / f"{run.root.name}-profile")
    return job


def _link_profiles(run: JobPaths, board: Path) -> None:
    """Link each profile at the end of real folders: its plugin looks behind no links for them."""
    for profile in _profiles(run):
        link = board / profile.relative_to(run.root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(profile)


def login(site: Site) -> str:
    """Return the host that ssh reaches from outside; without a profile's name DNS is asked."""
    return (site.profile.login if site.profile else "") or socket.getfqdn()


def reconnect(paths: JobPaths, job: Job, flags: Mapping[str, Any], title: str) -> ServerVisit:
    """Come back to a server that was started before; `title` names the one that is meant.

    Raises UsageError for a run that is none, or of another user.
    """
    if not _is_server(job):
        raise UsageError(
            f"{paths.root.name} is no session of {title}",
            "a command in the container of a running job has another name",
            f"runner exec {shlex.quote(files.from_here(paths.root))} -- COMMAND",
            id="not-this-session",
        )
    trust.check(paths.root, os.environ)
    return ServerVisit(paths, job, login(named_site.find(flags, None)))
