"""A session in the browser: submits it, says where it answers, stays until it ends."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from ...core import files
from ...core.job_record import Job
from ...jobs.find_run import Run
from ...monitoring import wording
from ...sessions import server_visit, servers
from ...sessions.server_visit import ServerAccess, ServerEnd, ServerState, ServerVisit
from ...sessions.servers import ServerDraft
from .. import printer
from ..runs import follow, job_end
from ..train import plan_summary

loopback = click.option(
    "--loopback",
    is_flag=True,
    help="listen on the node's loopback address only; the tunnel then needs ssh to the node",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="print JSON once the server answers, and exit"
)
TITLES = {servers.JUPYTER: "JupyterLab", servers.TENSORBOARD: "TensorBoard"}


def start(made: ServerDraft, server: str, dry_run: bool, as_json: bool) -> None:
    """Submit a server's job, and stay with it; with `dry_run` only print the script."""
    draft = made.job
    plan_summary.warn(draft.plan)
    if dry_run:
        click.echo(draft.text, nl=False)
        return
    job = servers.serve(made)
    if not as_json:
        plan_summary.show(draft.plan, verbose=False)
        click.echo(f"job {job.id} submitted, in {draft.paths.root}", err=True)
    _stay(ServerVisit(draft.paths, job, servers.login(made.site)), server, as_json)


def reconnect(run: Run, flags: dict[str, Any], server: str, as_json: bool) -> None:
    """Come back to a session; raise UsageError for a run that is none."""
    visit = servers.reconnect(*run, flags, TITLES[server])
    _stay(visit, visit.job.typed.name, as_json)


def _stay(visit: ServerVisit, server: str, as_json: bool) -> None:
    """Stay with a session until it ends, or the user leaves it; exit with its code."""
    back = f"runner {server} {shlex.quote(files.from_here(visit.paths.root))}"
    ended = follow.attended(visit.paths, visit.job, lambda: _told(visit, server, as_json), back)
    sys.exit(_print_end(visit, ended) if ended else 0)


def _told(visit: ServerVisit, server: str, as_json: bool) -> ServerEnd | None:
    """Print the news of a session; return its end, None for a program once it answers."""
    job = visit.job
    for news in visit.news():
        if isinstance(news, ServerState):
            printer.tell(f"job {job.id}: {news.words}")
        elif isinstance(news, ServerEnd):
            return news
        else:
            _warn(news)
            if as_json:
                printer.print_json(server_visit.facts(visit, news))
                break
            _print_access(job, news, TITLES[server])
    return None


def _warn(access: ServerAccess) -> None:
    address = access.address
    if not access.reached:
        printer.tell(
            f"warning: {address.host} answers itself, and not to this machine: "
            f"{address.address}, port {address.port}, is not reached; a firewall?\n"
            f"  try: --loopback, where ssh to {address.host} is allowed"
        )


def _print_access(job: Job, access: ServerAccess, title: str) -> None:
    left = wording.beside(job, access.status).partition(", ")[2]
    click.echo(f"{title} answers on {access.address.host}" + (f", {left}" if left else ""))
    click.echo("\n".join(access.way.lines))
    click.echo(f"(also in {access.kept}, for your eyes only)", err=True)


def _print_end(visit: ServerVisit, ended: ServerEnd) -> int:
    """Print how a session ended; return the exit code."""
    for line in ended.last_lines:
        click.echo(f"  {line}", err=True)
    if explained := visit.explained(ended):
        job_end.show(explained)
        return explained.exit_code
    code = f", exit code {ended.exit_code}" if ended.exit_code else ""
    printer.tell(f"job {visit.job.id} ended: {wording.describe(ended.status)}{code}")
    return ended.exit_code
