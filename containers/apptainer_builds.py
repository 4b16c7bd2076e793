"""What `apptainer build` is asked for an image of ours: to compile Horovod, and the environment."""

from __future__ import annotations

from pathlib import Path

from .apptainer import Build
from .catalogue import HERE
from .plan import COMPRESSION, Plan

# Names of a build's inputs in its folder; the definitions name their files relative to it.
BASE, NO_RECIPES = "base.tar", "no-recipes"


def horovod(plan: Plan, result: Path) -> Build:
    """What compiles Horovod; its wheel comes into the folder `result`."""
    return Build(
        definition=plan.wheel_definition,
        output=plan.places.temporary / "horovod_wheel.sif",
        files={"containers": HERE, BASE: plan.base_archive(plan.wheel_definition)},
        given={**base_arguments(plan), "lock": plan.image.lock},
        binds=(f"{plan.wheels}:/mnt:ro", f"{result}:/srv"),
    )


def environment(plan: Plan) -> Build:
    """What installs everything but the trainers."""
    return Build(
        definition=plan.definition,
        output=plan.places.temporary / "environment.sif",
        files={
            "containers": HERE,
            BASE: plan.base_archive(plan.definition),
            "horovod": plan.horovod,
            NO_RECIPES: plan.places.temporary / NO_RECIPES,
        },
        given={**base_arguments(plan), "horovod": "horovod/*.whl", "recipes": NO_RECIPES},
        binds=(f"{plan.wheels}:/mnt:ro",),
        compression=COMPRESSION,
    )


def base_arguments(plan: Plan) -> dict[str, str]:
    """The build arguments that name the base."""
    if plan.base.kind == "docker":
        return {"bootstrap": "docker", "from": plan.base.reference}
    return {"bootstrap": "docker-archive", "from": BASE}
