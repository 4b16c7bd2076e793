"""Horovod's wheel alone, compiled as for an image, for who wants no image of ours."""

from __future__ import annotations

import shutil
from pathlib import Path

from runners.core import atomic, digest

from . import apptainer, build_steps, process
from .build import Builder
from .build_steps import Progress
from .plan import BuildOptions, BuildPlan


def make(plan: BuildPlan, options: BuildOptions, shown: Progress) -> None:
    """Compile it, unless another build just did. Raises RunnerError."""
    apptainer.require()
    with process.only_build(plan.places.work, shown):
        if plan.horovod.exists():
            return
        builder = Builder.here(plan, options, shown)
        builder.do(builder.wheel_steps(), plan.image.needs, shown)


def describe(plan: BuildPlan, options: BuildOptions, shown: Progress) -> str:
    """The commands that would be run. Raises RunnerError."""
    apptainer.require()
    return build_steps.outline(Builder.here(plan, options, shown).wheel_steps())


def copy(horovod: Path, folder: Path) -> Path:
    """Copy the compiled wheel there; beside it its SHA-256, as sha256sum writes and reads it."""
    (compiled,) = horovod.glob("*.whl")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / compiled.name
    with atomic.new_file(target) as part:
        shutil.copyfile(compiled, part)
    text = f"{digest.sha256(target)}  {target.name}\n"
    atomic.write_text(folder / f"{target.name}.sha256", text)
    return target
