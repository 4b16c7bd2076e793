"""The log of a step: the file into which a script leads its output itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .draft import LaunchLine
from .script import Script
from .step import JobStep, Layer
from .words import WHO_KNOWS, Word, compose

NOWHERE = "/dev/null"
# Slurm's signs for a job's log (sbatch, "filename pattern"), and those of one task (srun's).
SIGNS = {
    "SLURM_JOB_ID": "%j",
    "SLURM_JOBID": "%j",
    "SLURM_JOB_NAME": "%x",
    "SLURM_ARRAY_JOB_ID": "%A",
    "SLURM_ARRAY_TASK_ID": "%a",
}
OF_TASK = re.compile(r"%\d*[tnNs]")
OF_RANKS = ("output-filename",)  # of mpirun and horovodrun: a folder with a file for each rank


class Logs(NamedTuple):
    """The files of a step's output and of its errors, the innermost first, and those of its ranks.

    `decided` is what decides whether they are written.
    """

    outputs: Sequence[Word]
    errors: Sequence[Word]
    of_ranks: Sequence[Word] = ()
    decided: str = ""


def add(draft: LaunchLine, script: Script, step: JobStep) -> None:
    """Add the log that a script writes where its directives send that of the job to nowhere."""
    logs, added = _logs(script, step), set[str]()
    if script.job.text("output") == NOWHERE:
        draft.drop(*(["output"] if logs.outputs or logs.of_ranks else []))
        draft.drop(*(["error"] if script.job.text("error") == NOWHERE and any(logs[:3]) else []))
        for name, words in (("output", logs.outputs), ("error", logs.errors)):
            added |= _add(draft, script.job.scheduler, name, words[:1], logs.decided)
    if draft.text_of("output") == NOWHERE:
        text = f"--output {NOWHERE}: the script keeps no log; without it runner has one"
        draft.look_at(script.job.line_of("output"), text)
    shown = [word for words in logs[:3] for word in words if word.text not in added]
    kept = [(word.line, word.text) for word in shown if word not in _tee(script, step)]
    kept += [(step.line, " | ".join(step.command.pipe))] if step.command.pipe else []
    for line, text in kept:
        draft.leave_out(line, f"{text}: runner keeps the log")


def _add(
    draft: LaunchLine, scheduler: str, name: str, files: Sequence[Word], decided: str
) -> set[str]:
    """Add the option for a file that the scheduler can name; return the files that are added."""
    for file in files:
        why = next((WHO_KNOWS[p.kind] for p in file.unknown if p.kind in WHO_KNOWS), "")
        pattern = _pattern(file, scheduler)
        if pattern is not None and not decided:
            draft.add(name, pattern)
            return {file.text}
        if why := f"{decided} decides this" if decided else why:
            draft.lose(file.line, f"the log {file.text}: {why}")
    return set()


def _logs(script: Script, step: JobStep) -> Logs:
    """Return the files of a step: those that srun writes, its redirections, tee's, and exec's."""
    srun = step.starter if step.starter.name == "srun" else Layer()
    before = script.content.commands[: step.command.order]
    execs = [c for c in reversed(before) if c.text == "exec" and c.outputs and not c.within]
    inner = [command for command in step.inner if not command.within]
    commands = [*inner, step.command, *execs]
    outputs = [*srun.values("output"), *_tee(script, step)]
    outputs += [
        word for command in commands for word in command.outputs if word not in command.errors
    ]
    errors = [*srun.values("error"), *(word for command in commands for word in command.errors)]
    others = [c for exec_ in execs for c in exec_.conditions if c not in step.command.conditions]
    ranks = [word for layer in (step.starter, step.launcher) for word in layer.values(*OF_RANKS)]
    return Logs(_kept(outputs), _kept(errors), ranks, "".join(others[:1]))


def _kept(files: Iterable[Word]) -> list[Word]:
    return [file for file in files if file.text != NOWHERE]


def _tee(script: Script, step: JobStep) -> list[Word]:
    """Return the file of `| tee FILE` behind a step."""
    if "tee" not in step.command.pipe:
        return []
    behind = script.content.commands[step.command.order + 1 :]
    tee = next((command for command in behind if command.name == "tee"), None)
    return [word for word in tee.arguments if word.start[:1] != "-"][:1] if tee else []


def _pattern(word: Word, scheduler: str) -> Word | None:
    """Return a file's name as a scheduler's pattern; None where the run alone knows it."""
    if OF_TASK.search(word.text):
        return None
    signs = SIGNS if scheduler == "slurm" else {}
    pieces = (
        piece if isinstance(piece, str) else signs.get(piece.source.strip("${}"), piece)
        for piece in word.pieces
    )
    pattern = compose(pieces, word.line)
    return pattern if pattern.portable else None
