"""Builds an image and records its digest and bill of materials, or an environment and its labels.

All raise RunnerError.
"""

from __future__ import annotations

import os
from pathlib import Path

from containers import build, build_definition, build_record, host_environment, plan
from containers.build_definition import RECIPES_LABEL, DefinitionBuild
from containers.build_steps import BuildProgress
from containers.host_environment import EnvironmentOptions, Made
from containers.plan import BuildOptions, BuildPlan

from ..core import disk_space
from ..core.errors import NotVerified, RunnerError
from ..core.progress import Listener
from . import pull
from .facts import environment, probe_image
from .release import prebuilt
from .trust import recorded_digest


def plan_image(name: str, options: BuildOptions) -> BuildPlan:
    """Return the plan of a packaged image. Raises UsageError where its file cannot be written."""
    made = plan.make(name, options)
    disk_space.check_output(made.output)
    return made


def packaged_image(made: BuildPlan, options: BuildOptions, progress: BuildProgress) -> Path | None:
    """Build the planned image; return its bill of materials, None if the image is current."""
    if build_record.is_current(made.output, made.key):
        return None
    build.build(made, options, progress)
    recorded_digest.remember(made.output)
    return probe_image.extract_bill(made.output)


def of_definition(definition: DefinitionBuild, progress: BuildProgress) -> Path | None:
    """Build it; return the bill of materials, None for an image without one. Raises RunnerError."""
    build_definition.build(definition, progress)
    recorded_digest.remember(definition.output)
    # Our images have a bill, and so have those that are made from them.
    ours = definition.base and RECIPES_LABEL in definition.base.labels
    return probe_image.extract_bill(definition.output) if ours else None


def environment_of_lock(options: EnvironmentOptions, progress: BuildProgress) -> dict[str, str]:
    """Make an environment with the packages of an image's lock; return its labels."""
    with host_environment.kept(options):
        return _tested(options, host_environment.build(options, progress), {}, progress)


def horovod_into(options: EnvironmentOptions, progress: BuildProgress) -> dict[str, str]:
    """Compile Horovod for what an existing environment has; return its labels."""
    with host_environment.kept(options):
        made = host_environment.add_horovod(options, progress)
        return _tested(options, made, {environment.INTO: "yes"}, progress)


def _tested(
    options: EnvironmentOptions, made: Made, labels: dict[str, str], progress: BuildProgress
) -> dict[str, str]:
    with progress.phase("its test", lambda: ""):
        host_environment.prove(options.folder, made)
        facts = {**environment.probe(options.folder, made.environ), **labels}
    return environment.write_labels(options.folder, facts, options.modules, made.library)


def pull_unless_current(name: str, listener: Listener) -> Path | None:
    """Return the prebuilt image, pulled; None where the image is to be built, or is current.

    A source that does not have it, or is down, is told. Raises NotVerified for a wrong signature
    or digest.
    """
    made = plan.make(name, BuildOptions())
    source = prebuilt.release_source(os.environ).source
    if not source or build_record.is_current(made.output, made.key):
        return None
    try:
        request = pull.request_for(name, listener)
        with listener.progress() as progress:
            return pull.pull(request, progress).path
    except NotVerified:
        raise
    except RunnerError as error:
        listener.tell(str(error))
        listener.tell("building instead")
        return None
