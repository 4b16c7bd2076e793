"""`runner images`: lists the images folder, prunes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ...contract.log_text import human_size
from ...core import files, places
from ...images import local_image
from ...images.store import in_use, store
from .. import options, printer


@click.group("images", invoke_without_command=True, epilog="Example: runner images --json")
@click.option(
    "--site", metavar="NAME", help="list the images that this site provides for all users"
)
@options.as_json
@click.pass_context
def images_command(ctx: click.Context, site: str | None, as_json: bool) -> None:
    """List the images on scratch: pulled images with their digest, built images by name."""
    if ctx.invoked_subcommand is not None:
        return
    if site:
        _of_site(site, as_json)
        return
    rows = [image.facts for image in in_use.named_images()]
    rows += map(store.facts_of_file, store.others())
    if as_json:
        printer.print_json(rows)
        return
    headers = ["name", "digest", "size", "pulled", "used by", "source"]
    printer.table([_row(facts) for facts in rows], headers, spare=("pulled", "used by"))
    click.echo(f"in {places.images()}; an image in another folder is named by its path", err=True)


def _of_site(name: str, as_json: bool) -> None:
    folder, paths = local_image.of_site(name, os.environ)
    rows = [store.facts_of_file(path) for path in paths]
    table = [[row["path"], human_size(row["size"])] for row in rows]
    printer.json_or_table(as_json, rows, table, ["image", "size"])
    if not as_json:
        click.echo(f"next: runner launch --image PATH ..., of {folder}", err=True)


def _row(facts: dict[str, Any]) -> list[str]:
    digest = facts["digest"].partition(":")[2][:12]
    users = ", ".join(files.from_here(Path(user)) for user in facts.get("used_by", ()))
    columns = [facts["name"], digest, human_size(facts["size"]), facts.get("pulled", ""), users]
    return [text or "-" for text in (*columns, facts["source"])]


@images_command.command("prune", epilog="Example: runner images prune --dry-run")
@click.option("--dry-run", "--dryrun", is_flag=True, help="only print what would be removed")
def prune_command(dry_run: bool) -> None:
    """Remove pulled images that no name, images.lock or run refers to."""
    done = in_use.prune(dry_run)
    would = "would remove" if dry_run else "removed"
    for digest in done.digests:
        click.echo(f"{would} {digest}")
    click.echo(f"{'would free' if dry_run else 'freed'} {human_size(done.size)}", err=True)
    if done.leftovers:
        click.echo(f"removed what {done.leftovers} killed pulls had left", err=True)
