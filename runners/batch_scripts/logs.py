"""The log of a step: the file into which a script leads its output itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .draft import LaunchLine
from .script import Script
from .step import JobStep
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


class Logs(NamedTuple):
    """The files of a step's output and of its errors, those of the innermost place first."""

    outputs: Sequence[Word]
    errors: Sequence[Word]


def add(draft: LaunchLine, script: Script, step: JobStep) -> None:
    """Add the log that a script writes where its directives send that of the job to nowhere."""
    logs, added = _logs(script, step), set[str]()
    if script.job.text("output") == NOWHERE:
        draft.drop(*["output"] * bool(logs.outputs))
        draft.drop(*["error"] * (script.job.text("error") == NOWHERE and any(logs)))
        for name, words in (("output", logs.outputs), ("error", logs.errors)):
            added |= _add(draft, script.job.scheduler, name, words[:1])
    if draft.text_of("output") == NOWHERE:
        text = f"--output {NOWHERE}: the script keeps no log; without it runner has one"
        draft.look_at(script.job.line_of("output"), text)
    shown = [word for word in (*logs.outputs, *logs.errors) if word.text not in added]
    kept = [(word.line, word.text) for word in shown if word not in _tee(script, step)]
    kept += [(step.line, " | ".join(step.command.pipe))] if step.command.pipe else []
    for line, text in kept:
        draft.leave_out(line, f"{text}: runner keeps the log")


def _add(draft: LaunchLine, scheduler: str, name: str, files: Sequence[Word]) -> set[str]:
    """Add the option for a file that the scheduler can name; return the files that are added."""
    for file in files:
        if (pattern := _pattern(file, scheduler)) is not None:
            draft.add(name, pattern)
            return {file.text}
        if unknown := next((piece for piece in file.unknown if piece.kind in WHO_KNOWS), None):
            draft.lose(file.line, f"the log {file.text}: {WHO_KNOWS[unknown.kind]}")
    return set()


def _logs(script: Script, step: JobStep) -> Logs:
    """Return the files of a step: those that srun writes, its redirections, tee's, and exec's."""
    srun = step.starter if step.starter.name == "srun" else None
    before = script.content.commands[: step.command.order]
    execs = [c for c in reversed(before) if c.text == "exec" and not c.within]
    inner = [command for command in step.inner if not command.within]
    commands = [*inner, step.command, *execs]
    outputs = [*(srun.values("output") if srun else ()), *_tee(script, step)]
    outputs += [word for each in commands for word in each.outputs if word not in each.errors]
    errors = srun.values("error") if srun else []
    errors += [word for each in commands for word in each.errors]
    kept = ([word for word in words if word.text != NOWHERE] for words in (outputs, errors))
    return Logs(*kept)


def _tee(script: Script, step: JobStep) -> list[Word]:
    """Return the file of `| tee FILE` behind a step."""
    if "tee" not in step.command.pipe:
        return []
    behind = script.content.commands[step.command.order + 1 :]
    tee = next((each for each in behind if each.name == "tee"), None)
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
