"""Build the small image from nothing in a new folder: python -m tests.real.small.twice FOLDER

Prints the path of the image. The steps are those of `runner build cpu` without Horovod.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from containers import apptainer, assemble, catalogue, modes, process
from containers.apptainer import Apptainer
from containers.catalogue import Image
from containers.places import Places
from containers.plan import EPOCH, Base, Plan, Source, recipes
from containers.space import Needs
from containers.steps import Builder

HERE = "../tests/real/small"
SMALL = Image(
    short="small",
    name="small",
    definition=f"{HERE}/small.def",
    wheel_definition=f"{HERE}/small.def",
    lock=f"{HERE}/small.lock",
    slim=f"{HERE}/small.slim",
    needs=Needs(10**9, 10_000),
    needs_for_trainers=Needs(10**8, 100),
    codename="bookworm",
    registry_base="debian:12-slim",
    glibc_minor=36,
    python="3.11",
)


def main(folder: Path) -> Path:
    """Base, environment, image."""
    places = Places(folder / "cache", folder / "work", folder / "images")
    output = places.images / "small.sif"
    plan = Plan(SMALL, Base("debian"), places, output, Source("1", "abc", 1700000000))
    for made in (plan.wheels, plan.horovod, places.images):
        made.mkdir(parents=True)
    (plan.horovod / "none.whl").touch()
    process.empty(places.temporary)
    environ = apptainer.environment(places, os.environ, EPOCH)
    builder = Builder(plan, Apptainer(modes.choose(environ), environ, places.temporary))
    builder.make_base(catalogue.HERE / SMALL.definition)
    builder.make_environment()
    work = places.temporary / "image"
    assemble.stage(recipes(catalogue.CHECKOUT), catalogue.CHECKOUT, work / "stage")
    log = builder.log("image")
    builder.compile_trainers(work / "stage", log)
    builder.append(work, output, log)
    process.empty(places.temporary)
    return output


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
