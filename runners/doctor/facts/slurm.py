"""Slurm, as far as `site.probe` does not ask already: its configuration, accounting and munge."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ...schedulers import slurm_facts
from ..question import Answer, ask


@dataclass(frozen=True)
class Slurm:
    """What Slurm's own commands say; `config` are the lines of `scontrol show config`.

    `munge` is None where there is no such command.
    """

    ping: Answer
    configuration: Answer
    accounting: Answer
    munge: Answer | None = None
    config: dict[str, str] = field(default_factory=dict)


def look() -> Slurm:
    """Ask the controller, the accounting and munge, side by side: each may hang."""
    with ThreadPoolExecutor() as pool:
        ping = pool.submit(ask, ["scontrol", "ping"])
        configuration = pool.submit(ask, slurm_facts.CONFIG)
        accounting = pool.submit(ask, ["sacct", "--noheader", "--allocations", "--starttime=now"])
        munge = pool.submit(ask, ["munge", "--no-input"]) if shutil.which("munge") else None
    return Slurm(
        ping.result(),
        configuration.result(),
        accounting.result(),
        munge.result() if munge else None,
        slurm_facts.parse_config(configuration.result().out),
    )
