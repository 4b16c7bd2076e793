"""Builds one of our images. The steps stand in the order in which they happen on the machine:

1. wheels       all that the lock names, with this machine's pip              (wheels.py)
2. bases        Debian packages: to compile in, and of the image              (debian.py)
3. Horovod      compiled against the packages of the image       (horovod_wheel*.def)
4. environment  these packages and all but the trainers, packed; its %test (horovod_*.def)
5. image        the environment with the trainers appended    (append_trainers.py, sif_write.py)
6. proof        each trainer imports in the image, which only then takes its name

builder.py does them. Each result is named by the content of its inputs (build_plan.py) and skipped
when it is there. Everything is done by an ordinary user.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from runners.core import atomic, digest

from . import build_record, build_steps, process
from .build_plan import BuildOptions, BuildPlan
from .build_steps import BuildProgress
from .builder import Builder


def build(plan: BuildPlan, options: BuildOptions, shown: BuildProgress) -> None:
    """Make the image, unless another build just made it. Raises RunnerError."""
    with process.only_build(plan.folders.work, shown):
        if not build_record.is_current(plan.output, plan.key, plan.level):
            builder, image = Builder.here(plan, options, shown), plan.image
            steps = builder.steps()
            long = any(step.needed for step in steps[:-1])
            builder.run(steps, image.needs if long else image.needs_for_trainers, shown)
        for path in build_record.forget(plan.folders.builds, plan.results()):
            shown.say(f"removed, not used for {build_record.DAYS} days: {path}")


def build_wheel(plan: BuildPlan, options: BuildOptions, shown: BuildProgress) -> Path:
    """Compile Horovod's wheel as for an image, unless it is there. Raises RunnerError."""
    if not plan.horovod.exists():
        with process.only_build(plan.folders.work, shown):
            builder = Builder.here(plan, options, shown)
            builder.run(builder.wheel_steps(), plan.image.needs, shown)
    (compiled,) = plan.horovod.glob("*.whl")
    return compiled


def describe(
    plan: BuildPlan, options: BuildOptions, shown: BuildProgress, alone: bool = False
) -> str:
    """The definition, and the commands that would be run; those for the wheel `alone`.

    Raises RunnerError.
    """
    builder = Builder.here(plan, options, shown)
    if alone:
        return build_steps.outline(builder.wheel_steps())
    text = plan.definition.read_text(encoding="utf-8").rstrip()
    return f"{text}\n\n{build_steps.outline(builder.steps())}"


def copy_wheel(compiled: Path, folder: Path) -> Path:
    """Copy it there; beside it its SHA-256, as sha256sum writes and reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / compiled.name
    with atomic.new_file(target) as part:
        shutil.copyfile(compiled, part)
    text = f"{digest.sha256(target)}  {target.name}\n"
    atomic.write_text(folder / f"{target.name}.sha256", text)
    return target
