"""Slurm's answers to what each plan asks, remembered for a minute in a file of the user's.

Partitions, settings and the list of --mpi change with the cluster's configuration; a plan asks for
them again and again, and each question starts a program that asks Slurm's controller.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...core import files, places, shell

SECONDS = 60
FORM = 1
ABOUT = f"what Slurm answered, asked again after {SECONDS} s; may be removed at any time"


def ask(commands: Sequence[Sequence[str]], timeout: float) -> list[shell.Result]:
    """Return the answers, of which none is older than SECONDS; failures are not remembered."""
    path, question = _place(), _question(commands)
    known = files.recall(path, FORM)
    if known.get("question") == question and 0 <= time.time() - known["time"] < SECONDS:
        return [shell.Result(**answer) for answer in known["answers"]]
    answers = shell.together(commands, timeout)
    if all(answer.code == 0 for answer in answers):
        content = {"about": ABOUT, "time": time.time(), "question": question}
        files.remember(path, FORM, {**content, "answers": [asdict(each) for each in answers]})
    return answers


def _question(commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return what the answers depend on: the programs, and the cluster that they ask."""
    programs = [shutil.which(command[0]) for command in commands]
    configuration = os.environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf"
    try:
        changed = os.stat(configuration).st_mtime_ns
    except OSError:  # some sites keep it elsewhere, or send it to the nodes
        changed = 0
    return {
        "configuration": [configuration, changed],
        "commands": [[str(path), *words[1:]] for path, words in zip(programs, commands)],
    }


def _place() -> Path:
    # A home may be shared by several clusters.
    return places.private_cache() / f"slurm-{os.uname().nodename}.json"
