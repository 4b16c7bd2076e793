"""`runner sites`: the systems that are known, their values, and what is wrong with a profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from ...core.errors import UsageError
from ...core.site import Profile
from ...sites import find_site, load
from .. import options, printer

EXAMPLE = """\b
Examples:
  runner sites
  runner launch --site none --image horovod_cpu.sif torch_mnist
"""


@click.group("sites", invoke_without_command=True, epilog=EXAMPLE)
@options.as_json
@click.pass_context
def sites_command(ctx: click.Context, as_json: bool) -> None:
    """List the known sites and the one that this machine belongs to.

    Your own profiles are in ~/.config/runner/sites, those of the site in /etc/runner/sites or the
    folders of RUNNER_SITES_PATH. Your profile overrides one of the same name; `base` may refer to
    the other.
    """
    if ctx.invoked_subcommand is not None:
        return
    known, problem = find_site.known(os.environ)
    if problem:
        printer.tell(problem)
    rows = [site.facts for site in known]
    headers = ["name", "title", "scheduler", "runtimes", "never run", "in force"]
    table = [_words(row)[: len(headers)] for row in rows]
    printer.json_or_table(as_json, rows, table, headers)
    if not any(site.chosen for site in known) and not as_json:
        click.echo("none is in force here; next: runner sites new, or --site NAME", err=True)


def here() -> Profile | None:
    """Return the profile in force here; say what is wrong with it otherwise."""
    profile, problem = find_site.here(os.environ)
    if problem:
        printer.tell(problem)
    return profile


def _words(facts: dict[str, Any]) -> list[str]:
    return [", ".join(item) if isinstance(item, tuple) else item for item in facts.values()]


@sites_command.command("show", epilog="Example: runner sites show neuron")
@click.argument("name", required=False)
@options.as_json
def show_command(name: str | None, as_json: bool) -> None:
    """Show every value of a site with source, date and file; default: the detected site."""
    profile = load.profile(name, os.environ) if name else here()
    if profile is None:
        raise UsageError("no site is in force here", remedy="runner sites show NAME", id="no-site")
    rows = [value.facts for value in load.values(profile, os.environ)]
    if as_json:
        facts = {"name": profile.name, "title": profile.title, "never_run": profile.rendered}
        printer.print_json({**facts, "values": rows})
        return
    parts = ", ".join(profile.rendered)
    never_run = f" (rendered, and never run by this project: {parts})" if parts else ""
    click.echo(f"{profile.name}: {profile.title}{never_run}", err=True)
    printer.table([list(row.values()) for row in rows], ["value", "", "source", "read", "file"])


@sites_command.command("new", epilog="Example: runner sites new mycluster")
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="overwrite the profile of this name")
def new_command(name: str | None, force: bool) -> None:
    """Generate a profile from this machine's configuration; NAME defaults to the cluster's name."""
    from ...sites import create_profile

    path, problems = create_profile.profile(name, force)
    for problem in problems:
        printer.tell(f"left out: {problem}")
    click.echo(path)
    click.echo(f"next: read and complete it; runner sites lint {path}", err=True)


@sites_command.command("lint", epilog="Example: runner sites lint my.toml")
@click.argument("paths", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@options.as_json
def lint_command(paths: tuple[Path, ...], as_json: bool) -> None:
    """Check profiles (default: all): keys, types, bases, a source and date for every value."""
    faults_by_file = load.faults_of_all(paths, os.environ)
    if as_json:
        printer.print_json(faults_by_file)
    for name, faults in faults_by_file.items():
        for fault in faults if not as_json else ():
            click.echo(f"{name}: {fault}", err=True)
    if any(faults_by_file.values()):
        sys.exit(2)
    if not as_json:
        click.echo(f"{len(faults_by_file)} without fault")
