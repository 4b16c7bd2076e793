"""The image of a launch: the one that was named, or the environment that stands in for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import runtimes
from ..core.errors import Refused, RunnerError, UsageError
from ..core.model import ACTIVE, ImageInfo, Resources, RuntimeName, SchedulerName
from ..core.progress import Listener
from ..core.site import Profile, Site
from ..images import container_runtime, local_image
from ..images.local_image import ImageMissing
from ..planning import execution, site_limits
from ..registry import reference
from ..runtimes import FILES
from ..settings import config, request


@dataclass(frozen=True)
class NamedImage:
    """The image of a launch, what runs it, and by setting why, where that was not asked for.

    It is an environment where nobody named an image. With a `problem` it is not there, or cannot be
    used, and the image is what is known of it.
    """

    image: ImageInfo
    runtime: RuntimeName
    reasons: Mapping[str, str] = field(default_factory=dict)
    by_nobody: bool = False
    problem: RunnerError | None = None


def find(
    settings: config.Config,
    resources: Resources,
    here: Site,
    dry_run: bool,
    listener: Listener,
    refused: bool = False,
) -> NamedImage:
    """Return the image; neither a dry run pulls it nor a launch that is `refused` already."""
    name, runtime = settings.get("image"), _runtime(settings, here)
    try:
        if unnamed := _unnamed_environment(settings, here):
            by_itself = request.one_of(RuntimeName, settings.get("runtime")) is None
            reasons = {"runtime": "no image was given"} if by_itself else {}
            return NamedImage(unnamed, RuntimeName.NONE, reasons, by_nobody=True)
        if runtime not in (*FILES, RuntimeName.NONE):
            _check_no_file(name, runtime, here)
        image = _image(name, runtime, dry_run or refused, listener)
        image, why = _image_for_nodes(name, image, resources, here.profile)
        image = container_runtime.with_storage(_looked_into(image, listener))
        return NamedImage(image, runtime, {"architecture": why} if why else {})
    except ImageMissing as error:
        problem = None if dry_run and error.expected.unbuilt else error
        return NamedImage(error.expected, runtime, problem=problem)
    except (UsageError, Refused) as error:
        return NamedImage(_expected(name), runtime, problem=error)


def _check_no_file(name: str | None, runtime: RuntimeName, here: Site) -> None:
    """Refuse an image's file for a runtime with a store, naming those of the site that take one."""
    from ..images import file_for_store  # few sites have such a runtime

    known = (*here.runtimes, *(here.profile.runtimes if here.profile else ()))
    file_for_store.check(name, runtime, [candidate for candidate in FILES if candidate in known])


def _expected(name: str | None) -> ImageInfo:
    from ..images import expected  # for a mistake only

    if not name:
        return ImageInfo(Path("image"))
    return expected.image(name, expected.commands(name))


def _runtime(settings: config.Config, here: Site) -> RuntimeName:
    return execution.expected_runtime(
        request.one_of(RuntimeName, settings.get("runtime")),
        request.one_of(SchedulerName, settings.get("scheduler")),
        here,
    )


def _unnamed_environment(settings: config.Config, here: Site) -> ImageInfo | None:
    """Return the environment that stands in for an image that nobody named, None for none."""
    runtime = request.one_of(RuntimeName, settings.get("runtime"))
    if settings.get("image") or runtime not in (None, RuntimeName.NONE) or here.remote_site:
        return None
    active = any(os.environ.get(name) for name in ACTIVE)
    if not (active or runtime or settings.is_asked("module")):
        return None
    from ..images.facts import environment_facts as named  # 20 ms that other launches need not pay

    names = [n for n in settings.get("module") or () if not runtimes.is_module_of_one(n)]
    profile = here.profile
    modules = named.LoadedModules(
        tuple(names) if settings.is_asked("module") else (),
        (*(profile.module_use if profile else ()), *request.module_folders(settings)),
        bool(settings.get("module-purge")),
    )
    return named.unnamed(modules, runtime)


def _image_for_nodes(
    name: str | None, image: ImageInfo, resources: Resources, profile: Profile | None
) -> tuple[ImageInfo, str]:
    """Return the image for the nodes' architecture, and why it is another than was named."""
    architectures = site_limits.architectures(resources, profile) if profile else set()
    only = architectures.pop() if len(architectures) == 1 else ""
    return local_image.for_nodes(name, image, only)


def _looked_into(image: ImageInfo, listener: Listener) -> ImageInfo:
    """Look into an image that is not ours, and say so, since it takes seconds the first time."""
    if image.ours or not image.path.exists():
        return image
    from ..images import inspect  # 20 ms that a launch of an image of ours need not pay

    return inspect.inspected(image, listener.tell)


def _image(name: str | None, runtime: RuntimeName, dry_run: bool, listener: Listener) -> ImageInfo:
    """Find the image; pull a URI now, unless it is only a dry run: never by the job's ranks."""
    if runtime not in FILES:
        from ..images.facts import (
            environment_facts as named,  # 20 ms that other launches need not pay
        )

        return named.image(name, runtime)
    if not name or not reference.is_remote(name):
        return local_image.on_disk(name)
    from ..images import pull

    with listener.progress() as progress:
        return pull.image(name, dry_run, progress)
