"""Build the small image from nothing: python -m tests.real.small.twice FOLDER [INSTALLED]

Prints the path of the image. The steps are those of `runner build cpu` without Horovod. What is in
the folder INSTALLED, as compiling Horovod leaves it there, is moved into the image.
"""

from __future__ import annotations

import sys
from pathlib import Path

from containers import image_catalogue, process
from containers.apptainer import Apptainer
from containers.build_folders import BuildFolders
from containers.build_plan import EPOCH, BuildPlan, Revision
from containers.builder import Builder
from containers.image_catalogue import Image
from runners.core.disk_space import Needs

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


def main(folder: Path, *installed: Path) -> Path:
    """Base, environment, image."""
    folders = BuildFolders(folder / "cache", folder / "work", folder / "images")
    output = folders.images / "small.sif"
    plan = BuildPlan(SMALL, None, folders, output, Revision("1", "abc", 1700000000), 3)
    for made in (plan.wheels, plan.horovod, folders.images):
        made.mkdir(parents=True)
    (plan.horovod / "none.whl").touch()
    process.empty(folders.temporary)
    builder = Builder(plan, Apptainer.here(folders, epoch=EPOCH))
    builder.make_base(image_catalogue.HERE / SMALL.definition)
    builder.make_environment(*installed)
    builder.append_trainers(output, builder.log("image"))
    process.empty(folders.temporary)
    return output


if __name__ == "__main__":
    print(main(*map(Path, sys.argv[1:])))
