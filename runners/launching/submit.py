"""Accepts a launch that can work; submits it as one job, or as the runs of --array and --sweep."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import command_signals
from ..core.command_line import CommandLine, Given
from ..core.diagnosis import Diagnosis, warning
from ..core.errors import RunnerError, UsageError
from ..core.job_record import Job, JobPaths, next_folder
from ..core.plan import Plan, Variable, Where
from ..core.progress import Listener
from ..core.remedy import advice, change
from ..core.trainer import Framework
from ..schedulers import capabilities
from ..script import render
from ..settings import sweep, trainers
from ..settings.sweep import SweepRequest, SweepRun
from . import default_trainer, gather, job_array, run_folder
from .run_folder import Draft

BELOW_OUTPUT_DIR = (
    'write below os.environ["OUTPUT_DIR"], the folder of each run, checkpoints and result.json too'
)


@dataclass(frozen=True)
class LaunchRequest:
    """What is to be launched: a trainer, "" for the default one, its arguments, settings by name.

    `typed` is the command that asks for it, `sweep` the runs where there are several. By `force`
    also what cannot work is accepted. A dry run neither pulls the image nor reads it whole.
    """

    trainer: str
    args: Sequence[str]
    flags: Mapping[str, Any]
    typed: CommandLine
    sweep: SweepRequest | None = None
    dry_run: bool = False
    force: bool = False


def accepted(request: LaunchRequest, listener: Listener) -> Plan:
    """Return the plan of a launch. Raises UsageError for what cannot be meant, Refused.

    The remedies of an error are changes that were tried. Only by force the plan has refusals.
    """
    try:
        _check_trainer(request)
        words, many = (request.trainer, request.args, request.flags), request.sweep is not None
        made = gather.plan(*words, request.dry_run, listener, many)
        if made.refusals and not request.force:
            from . import working_remedies  # for a mistake only

            raise working_remedies.refused(made, request.typed)
    except RunnerError as error:
        from . import working_remedies  # for a mistake only

        working_remedies.keep(error, request.typed)
        raise
    shared = _shared_files(made) if request.sweep else ()
    return replace(made, warnings=(*made.warnings, *shared))


def _check_trainer(request: LaunchRequest) -> None:
    """Raise UsageError for several runs of no trainer: each would be the same short test."""
    if request.sweep and not request.trainer:
        raise UsageError(
            "--array and --sweep need a trainer",
            "without one a launch is a single short test",
            change(trainer=(default_trainer.TRAINERS[Framework.PYTORCH],)),
            id="array-without-trainer",
        )


def _shared_files(made: Plan) -> Iterator[Diagnosis]:
    """Warn that the runs of a script of one's own have one working folder, if it seems not to know.

    A packaged trainer, and one that names OUTPUT_DIR, writes into its run's own folder.
    """
    file = made.spec.trainer.file
    if file is None or made.spec.trainer.uses_recipes or file.suffix != ".py":
        return
    if "OUTPUT_DIR" not in file.read_text(encoding="utf-8", errors="replace"):
        yield warning(
            "one-working-folder",
            f"all runs work in {os.getcwd()}, where {file.name} may overwrite one run's files with "
            "another's",
            advice(BELOW_OUTPUT_DIR),
        )


def waits(made: Plan, by_option: bool, by_program: bool) -> bool:
    """Whether a launch waits for its job's end.

    One that runs here is followed, as any command would be, unless a program launches it.
    """
    return by_option or not (capabilities(made.launching.scheduler).queue or by_program)


def submitted(
    made: Plan, typed: CommandLine, sweep_request: SweepRequest | None = None
) -> list[tuple[Draft, Job]]:
    """Submit one job, or all runs of a sweep or none of them; raises as `submit_all`.

    `typed` is the command that asks for it.
    """

    def attempt() -> list[tuple[Draft, Job]]:
        drafts = drafts_of(made, typed, sweep_request)
        at_once = sweep_request.at_once if sweep_request else None
        return list(zip(drafts, drafted(drafts, at_once)))

    return run_folder.with_retries(attempt)


def drafted(drafts: Sequence[Draft], at_once: int | None = None) -> list[Job]:
    """Submit what was drafted; keep the images of the store for as long as the runs' folders."""
    with command_signals.held():
        jobs = job_array.submit_all(drafts, at_once)
        for draft in drafts:
            if draft.plan.spec.image.digest:
                from ..images.store import in_use  # most images are plain files

                in_use.hold_run(draft.paths.root, draft.plan.spec.image.digest)
    return jobs


def drafts_of(
    made: Plan, typed: CommandLine, sweep_request: SweepRequest | None = None
) -> list[Draft]:
    """Return script and folder of one job, or of each run of a sweep; nothing is written.

    The folders of a sweep are such as runs/NAME-3_0 and runs/NAME-3_1.
    """
    if sweep_request is None:
        return [run_folder.draft(made, typed)]
    stem, drafts = next_folder(made.spec.runs_dir, made.spec.name), []
    for place, variant in enumerate(sweep_request.variants):
        number = place if variant.task is None else variant.task
        plan, paths = _plan(made, variant), JobPaths(stem.with_name(f"{stem.name}_{number}"))
        text = render.render(plan, paths, os.getcwd())
        drafts.append(Draft(plan, paths, text, typed, variant.task, variant.varied))
    return drafts


def _plan(made: Plan, variant: SweepRun) -> Plan:
    """A task's number is told to the trainer, also where its script is run by hand."""
    spec = made.spec
    trainer = replace(spec.trainer, args=(*spec.trainer.args, *variant.args))
    if variant.args:
        trainers.check_arguments(trainer.name, trainer.args)
    if variant.task is None:
        return replace(made, spec=replace(spec, trainer=trainer))
    number = Variable(sweep.TASK, str(variant.task), "its task", where=Where.CONTAINER, forced=True)
    settings = (*spec.settings, Given("env", f"{sweep.TASK}={variant.task}"))
    changed = replace(spec, trainer=trainer, settings=settings)
    return replace(made, spec=changed, variables=(*made.variables, number))
