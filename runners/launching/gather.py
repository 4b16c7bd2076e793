"""From settings to a plan: asks the site, the image and the data, once each; solves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.command_line import COMMAND
from ..core.errors import Problems
from ..core.model import DataAccess, Dataset, ImageInfo, RuntimeName
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import change
from ..core.site import Profile, Site
from ..core.trainer import Trainer
from ..images import recorded_digest
from ..images.recorded_digest import Recorded
from ..planning import solver
from ..planning.case import Case
from ..settings import config, request, trainers
from ..sites import named_site
from . import at_once, default_trainer, job_site, named_image
from .job_site import JobSite
from .named_image import NamedImage

# A session that was forgotten holds its nodes no longer than this, unless one asks for more.
SESSION_TIME = "1:00:00"


def plan(
    trainer: str,
    args: Sequence[str],
    flags: Mapping[str, Any],
    dry_run: bool,
    listener: Listener,
    one_of_many: bool = False,
) -> Plan:
    """Return the plan for what the flags, files and environment ask; see `plan_for`.

    Without a trainer it is the one of `default_trainer`.
    """
    problems = Problems()
    here = named_site.find(flags, None, problems=problems)
    name, words, named = trainer, tuple(args), None
    if not name:
        named = _image_first(flags, here, dry_run, listener, bool(problems.found))
        name = default_trainer.of(named.image)
        listener.tell(f"no trainer given: {name}, {default_trainer.ABOUT}")
    unknown = Trainer(name, None, None, words, program=name, typed=name), None
    resolved, preset = problems.of(trainers.find, name, words, one_of_many, instead=unknown)
    made = plan_for(resolved, preset, flags, here, dry_run, listener, problems, one_of_many, named)
    return made if trainer else default_trainer.fitted(made)


def plan_for(
    trainer: Trainer,
    preset: config.ConfigLayer | None,
    flags: Mapping[str, Any],
    here: Site,
    dry_run: bool,
    listener: Listener,
    problems: Problems | None = None,
    one_of_many: bool = False,
    named: NamedImage | None = None,
) -> Plan:
    """Return the plan for a trainer that was found, with its preset, on a site that was asked.

    Each source is asked once, when all that it depends on is known: the image that the settings
    name (without a trainer `named` before them), the data, and of the site what only this job
    depends on. The image's file is compared with its digest last: that reads it whole where it is
    new, which is for launches in which nothing is wrong.

    It may be for `one_of_many` runs, of an array or a sweep. One that cannot work has refusals.
    Raises an error with all `problems`, and the plan's refusals, where there is one: a site that is
    not here, an image, a partition or a dataset that does not exist. A dry run may be of another
    site; it neither pulls the image nor reads it whole, and one of ours that is not built yet is
    planned with the labels that it will have.
    """
    problems = problems or Problems()
    if not dry_run:
        problems.of(named_site.only_here, here, change(dry_run=True))
    settings = config.load(flags, os.environ, preset, here.profile)
    resources = request.resources(settings, trainer.has_ranks, problems)
    refused = bool(problems.found)
    named = named or named_image.find(settings, resources, here, dry_run, listener, refused)
    problems.keep(named.problem)
    data = problems.of(_data, settings, here.profile, instead=())
    spec = request.job_spec(settings, resources, named.image, trainer, data, problems)
    spec = replace(spec, runtime=RuntimeName.NONE) if named.by_nobody else spec
    of_job = job_site.find(spec, here, named.runtime)
    problems.keep(of_job.problem)
    recorded = _recorded(named.image, dry_run or bool(problems.found), listener)
    case = _case(settings, named, of_job, one_of_many)
    case = problems.of(_waiting, case, instead=case) if spec.resources.dependency else case
    plan = _solved(case, named.runtime)
    if problems.found:
        raise at_once.error(problems.found, plan)
    return replace(plan, verified_digest=recorded.digest, verified_stamp=recorded.stamp)


def _case(settings: config.Config, named: NamedImage, of_job: JobSite, one_of_many: bool) -> Case:
    return Case(
        of_job.spec,
        of_job.site,
        {**settings.reasons(), **named.reasons},
        settings.unasked,
        of_job.filesystems,
        one_of_many,
        settings,
    )


def session(
    name: str, flags: Mapping[str, Any], dry_run: bool, listener: Listener
) -> tuple[Plan, Site]:
    """Return the plan of a job that starts no ranks, which may have refusals, and the site."""
    # The site, files, variables and flags may change it.
    preset = config.ConfigLayer(COMMAND, {"time": SESSION_TIME}, f"runner {name}")
    here = named_site.find(flags, preset)
    trainer = Trainer(name, None, None)  # stands in for one; the name is also the job's
    return plan_for(trainer, preset, flags, here, dry_run, listener), here


def _recorded(image: ImageInfo, unread: bool, listener: Listener) -> Recorded:
    """Return the digest that was recorded of the image, compared with the file unless `unread`."""
    if unread:
        return recorded_digest.without_reading(image.path)
    return recorded_digest.check(image.path, listener.progress)


def _image_first(
    flags: Mapping[str, Any], here: Site, dry_run: bool, listener: Listener, refused: bool
) -> NamedImage:
    """Return the image before there is a trainer; what is wrong with it is told with the plan.

    It is the same with the preset of a default trainer, which has nothing that an image depends on.
    """
    settings = config.load(flags, os.environ, None, here.profile)
    resources = request.resources(settings, True, Problems())
    return named_image.find(settings, resources, here, dry_run, listener, refused)


def _solved(case: Case, runtime: RuntimeName) -> Plan:
    """Return the plan, a refused one with what works instead.

    The search plans with other settings: only for it the site is asked for what these depend on.
    """
    plan = solver.solve(case)
    if not plan.refusals:
        return plan
    from ..planning import search  # for what cannot work only

    full = job_site.in_full(case.spec, case.site, runtime)
    return search.with_instead(replace(case, site=full), plan)


def _waiting(case: Case) -> Case:
    from . import dependency  # few launches wait for others

    return dependency.of_case(case)


def _data(settings: config.Config, profile: Profile | None) -> tuple[Dataset, ...]:
    """Find the datasets; they are measured only where the plan depends on it."""
    texts = settings.get("data")
    if not texts:
        return ()
    from ..data import find_data

    datasets = find_data.all_of(texts, profile, os.environ)
    chosen = request.one_of(DataAccess, settings.get("stage-data"))
    return datasets if chosen else tuple(map(find_data.measured, datasets))
