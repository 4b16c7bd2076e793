"""Options and arguments that several commands have; for those of a launch see `options`."""

from __future__ import annotations

import click

job = click.argument("job", required=False)
runs_dir = click.option("--runs-dir", metavar="DIR", help="folder for the runs (default: ./runs)")
as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")
dry_run = click.option("--dry-run", "--dryrun", is_flag=True, help="print the script and stop")
sort = click.option(
    "--sort",
    metavar="NAME",
    help="sort by this metric, the best first (default: accuracy, loss or the rate, "
    "whichever there is)",
)
rank = click.option(
    "--rank", multiple=True, type=int, help="show the lines of this rank instead of rank 0"
)
all_ranks = click.option("--all", "all_ranks", is_flag=True, help="show the lines of all ranks")
no_https = click.option(
    "--no-https", "plain", is_flag=True, help="http instead of https (APPTAINER_NOHTTPS)"
)
