"""`runner jupyter`."""

from __future__ import annotations

import sys
from typing import Any

import click

from . import common_options, options, run_arguments, sessions, web_session
from .typed import SettingsCommand

EXAMPLE = """\b
Examples:
  runner jupyter --image horovod_cpu.sif
  runner jupyter --image horovod_gpu.sif --gpus-per-node 1 -c 8 -t 4:00:00
  runner jupyter jupyter-1
"""


@click.command("jupyter", cls=SettingsCommand, epilog=EXAMPLE)
@common_options.job
@options.setting_options
@web_session.of_sessions
def jupyter_command(job: str | None, as_json: bool, **values: Any) -> None:
    """Start JupyterLab on a node, in the image, and say how to reach it; or come back to JOB.

    It shows the current folder, behind a token that only you can read, and ends with the job:
    without --time after an hour. Ctrl-C asks whether to leave it or to cancel it.
    """
    if job:
        found = run_arguments.find(job, values["runs_dir"])
        sys.exit(web_session.back(*found, options.flags(values), "jupyter", as_json))
    ready = sessions.prepare("jupyter", values)
    draft = web_session.draft(ready, "jupyter", ready.cwd, values["loopback"])
    if values["dry_run"]:
        click.echo(draft.text, nl=False)
        return
    submitted = web_session.submitted(draft, as_json)
    sys.exit(web_session.attend(draft.paths, submitted, ready.site, "jupyter", as_json))
