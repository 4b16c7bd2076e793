"""A session in the browser: submits it, says where it answers, stays until it ends."""

from __future__ import annotations

import shlex
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ...core import files, places
from ...core.errors import UsageError
from ...core.job_record import Job, JobPaths, JobState, Status
from ...core.site import Site
from ...injob.serve import EXIT_NOT_SERVED
from ...injob.serve.start import http_status
from ...jobs import job_status, wording
from ...launching import gather, submit
from ...launching.submit import PreparedSession
from ...schedulers import capabilities
from ...submit import private_folder
from ...submit.private_folder import ServerAddress
from .. import exit_codes, invocation, options, printer
from ..runs import follow, job_end
from ..train import plan_view

SECONDS_TO_BE_REACHED = 10.0
TITLES = {"jupyter": "JupyterLab", "tensorboard": "TensorBoard"}
LAST_LINES = 10


def start(
    ready: PreparedSession,
    values: dict[str, Any],
    server: str,
    folder: str,
    runs: Sequence[JobPaths] = (),
) -> None:
    """Submit a job that serves `folder`, and stay with it; of `runs` it shows what they write.

    With --dry-run it only prints the script.
    """
    plan_view.accept(ready.plan)
    text = ready.script(server, folder, values["loopback"])
    if values["dry_run"]:
        click.echo(text, nl=False)
        return
    job = submit.serve(ready, text, invocation.again(), runs)
    if not values["as_json"]:
        plan_view.show(ready.plan, verbose=False)
        click.echo(f"job {job.id} submitted, in {ready.paths.root}", err=True)
    sys.exit(attend(ready.paths, job, ready.site, server, values["as_json"]))


def attend(paths: JobPaths, job: Job, site: Site, server: str, as_json: bool) -> int:
    """Stay with a session until it ends, or the user leaves it; return the exit code."""
    visit = Visit(paths, job, site, server, as_json)
    back = f"runner {server} {shlex.quote(printer.from_here(paths.root))}"
    status = follow.attended(paths, job, visit.to_the_end, back)
    if status is None:
        return follow.INTERRUPTED
    if not status.state.ended:
        return 0
    code = exit_codes.of_job(status, None)
    if not visit.way:
        for line in files.read_text(Path(job.log)).splitlines()[-LAST_LINES:]:
            click.echo(f"  {line}", err=True)
        if code != EXIT_NOT_SERVED:
            return job_end.ending(paths, job, status)
    how = wording.describe(status) + (f", exit code {code}" if code else "")
    printer.tell(f"job {job.id} ended: {how}")
    return code


def back(paths: JobPaths, job: Job, values: dict[str, Any], server: str) -> int:
    """Come back to a session; raise UsageError for a run that is none."""
    if not paths.private.is_dir():
        raise UsageError(
            f"{paths.root.name} is no session of {TITLES[server]}",
            "a command in the container of a running job has another name",
            f"runner exec {shlex.quote(printer.from_here(paths.root))} -- COMMAND",
        )
    options.check_ours([(paths, job)])
    here = gather.probe_site(options.flags(values), None)
    return attend(paths, job, here, server, values["as_json"])


class Visit:
    """What has been told of a session so far, so that one can go on after an interruption."""

    def __init__(self, paths: JobPaths, job: Job, site: Site, server: str, as_json: bool) -> None:
        self.paths, self.job, self.title, self.as_json = paths, job, TITLES[server], as_json
        self.login = (site.profile.login if site.profile else "") or socket.getfqdn()
        self.told = ""
        self.way: private_folder.Way | None = None

    def to_the_end(self) -> Status:
        """Say how the job stands, then where it answers; return its last state.

        A program that wants JSON has it, and the state, as soon as the session answers.
        """
        for (now,) in job_status.until_end([(self.paths, self.job)]):
            self._tell(now)
            if self.way is None and now.state == JobState.RUNNING:
                address = private_folder.address(self.paths)
                if address:
                    self._arrived(address, now)
            if self.way and self.as_json:
                break
        return now

    def _tell(self, now: Status) -> None:
        text = f"job {self.job.id}: {wording.describe(now)}"
        if now.state == JobState.PENDING and now.start:
            text += f"; {wording.beside(self.job, now)}"
        if text != self.told and self.way is None:
            printer.tell(text)
        self.told = text

    def _arrived(self, address: ServerAddress, now: Status) -> None:
        token = private_folder.token(self.paths)
        here = not capabilities(self.job.scheduler).queue
        self.way = private_folder.way(address, token, self.login, places.user(), here)
        reached = address.loopback or _reached(address, token)
        if not reached:
            printer.tell(
                f"warning: {address.host} answers itself, and not to this machine: "
                f"{address.address}, port {address.port}, is not reached; a firewall?\n"
                f"  try: --loopback, where ssh to {address.host} is allowed"
            )
        access = "".join(f"{line}\n" for line in self.way.lines)
        kept = private_folder.write(self.paths, private_folder.ACCESS, access)
        if self.as_json:
            facts = {"id": self.job.id, "folder": str(self.paths.root), **asdict(address)}
            printer.print_json({**facts, **asdict(self.way), "token": token, "reached": reached})
        else:
            self._print(address, now, kept)

    def _print(self, address: ServerAddress, now: Status, kept: Path) -> None:
        assert self.way is not None  # the caller has just found it
        left = wording.beside(self.job, now).partition(", ")[2]
        click.echo(f"{self.title} answers on {address.host}" + (f", {left}" if left else ""))
        click.echo("\n".join(self.way.lines))
        click.echo(f"(also in {kept}, for your eyes only)", err=True)


def _reached(address: ServerAddress, token: str) -> bool:
    """Whether the session answers to this machine, from where the tunnel will come."""
    deadline = time.monotonic() + SECONDS_TO_BE_REACHED
    while True:
        if http_status(address.address, address.port, address.page, token) == 200:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
