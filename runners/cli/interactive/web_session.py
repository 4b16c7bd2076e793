"""A session in the browser: submits it, says where it answers, stays until it ends."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ...core import files
from ...core.errors import UsageError
from ...core.job_record import Job, JobPaths, JobState, Status
from ...injob.serve import EXIT_NOT_SERVED
from ...jobs import job_status, wording
from ...launching import end, servers
from ...launching.servers import ServerAccess, ServerDraft
from .. import printer
from ..runs import follow, job_end
from ..train import plan_view

TITLES = {servers.JUPYTER: "JupyterLab", servers.TENSORBOARD: "TensorBoard"}
LAST_LINES = 10


def start(made: ServerDraft, server: str, dry_run: bool, as_json: bool) -> None:
    """Submit a server's job, and stay with it; with `dry_run` only print the script."""
    draft = made.job
    plan_view.warn(draft.plan)
    if dry_run:
        click.echo(draft.text, nl=False)
        return
    job = servers.serve(made)
    if not as_json:
        plan_view.show(draft.plan, verbose=False)
        click.echo(f"job {job.id} submitted, in {draft.paths.root}", err=True)
    sys.exit(_attend(draft.paths, job, servers.login(made.site), server, as_json))


def reconnect(paths: JobPaths, job: Job, flags: dict[str, Any], server: str, as_json: bool) -> int:
    """Come back to a session; raise UsageError for a run that is none."""
    if not servers.is_server(job):
        raise UsageError(
            f"{paths.root.name} is no session of {TITLES[server]}",
            "a command in the container of a running job has another name",
            f"runner exec {shlex.quote(printer.from_here(paths.root))} -- COMMAND",
        )
    login = servers.reconnect(paths, flags)
    return _attend(paths, job, login, job.typed.name, as_json)


def _attend(paths: JobPaths, job: Job, login: str, server: str, as_json: bool) -> int:
    """Stay with a session until it ends, or the user leaves it; return the exit code."""
    visit = Visit(paths, job, login, server, as_json)
    back = f"runner {server} {shlex.quote(printer.from_here(paths.root))}"
    status = follow.attended(paths, job, visit.to_the_end, back)
    if status is None:
        return follow.INTERRUPTED
    if not status.state.ended:
        return 0
    code = end.exit_code_of(status, None)
    if not visit.access:
        for line in files.read_text(Path(job.log)).splitlines()[-LAST_LINES:]:
            click.echo(f"  {line}", err=True)
        if code != EXIT_NOT_SERVED:
            return job_end.ending(paths, job, status)
    how = wording.describe(status) + (f", exit code {code}" if code else "")
    printer.tell(f"job {job.id} ended: {how}")
    return code


class Visit:
    """What has been told of a session so far, so that one can go on after an interruption."""

    def __init__(self, paths: JobPaths, job: Job, login: str, server: str, as_json: bool) -> None:
        self.paths, self.job, self.login, self.as_json = paths, job, login, as_json
        self.title, self.told = TITLES[server], ""
        self.access: ServerAccess | None = None

    def to_the_end(self) -> Status:
        """Say how the job stands, then where it answers; return its last state.

        A program that wants JSON has it, and the state, as soon as the session answers.
        """
        for (now,) in job_status.until_end([(self.paths, self.job)]):
            self._tell(now)
            if self.access is None and now.state == JobState.RUNNING:
                self.access = servers.access(self.paths, self.job, self.login)
                if self.access:
                    self._arrived(self.access, now)
            if self.access and self.as_json:
                break
        return now

    def _tell(self, now: Status) -> None:
        text = f"job {self.job.id}: {wording.describe(now)}"
        if now.state == JobState.PENDING and now.start:
            text += f"; {wording.beside(self.job, now)}"
        if text != self.told and self.access is None:
            printer.tell(text)
        self.told = text

    def _arrived(self, access: ServerAccess, now: Status) -> None:
        address = access.address
        if not access.reached:
            printer.tell(
                f"warning: {address.host} answers itself, and not to this machine: "
                f"{address.address}, port {address.port}, is not reached; a firewall?\n"
                f"  try: --loopback, where ssh to {address.host} is allowed"
            )
        if self.as_json:
            facts = {"id": self.job.id, "folder": str(self.paths.root), **asdict(address)}
            way = {**asdict(access.way), "token": access.token, "reached": access.reached}
            printer.print_json({**facts, **way})
            return
        left = wording.beside(self.job, now).partition(", ")[2]
        click.echo(f"{self.title} answers on {address.host}" + (f", {left}" if left else ""))
        click.echo("\n".join(access.way.lines))
        click.echo(f"(also in {access.kept}, for your eyes only)", err=True)
