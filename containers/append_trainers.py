"""The trainers of an image: the package `recipes`, appended to the packed environment.

A squashfs can grow at its end, so an edited trainer costs a copy of the file instead of a new
packing of gigabytes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from runners.core import sif

from .sif_write import blocks

FOLDER = "trainers"  # in the root of the image
# Compiles the trainers as they will lie in the image, and checks them on the way.
COMPILE = """\
set -eu
python -m compileall -q -f --invalidation-mode unchecked-hash -s "$1" -p / "$1"
"""
# A preset's framework, read without a TOML parser (Python 3.9 has none).
FRAMEWORK = re.compile(r'^framework = "(\w+)"$', re.MULTILINE)
IMPORT = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"


def files(checkout: Path) -> list[Path]:
    """The files of the package `recipes` that enter the image."""
    folder = checkout / "recipes"
    return sorted([*folder.rglob("*.py"), *folder.glob("*.toml")])


def names(checkout: Path) -> list[str]:
    """The trainers: what has a preset."""
    return [path.stem for path in files(checkout) if path.suffix == ".toml"]


def for_frameworks(checkout: Path, frameworks: Collection[str]) -> list[str]:
    """The trainers that need one of these frameworks, in the words of the presets."""
    presets = {name: checkout / "recipes" / f"{name}.toml" for name in names(checkout)}
    needs = {name: FRAMEWORK.search(path.read_text("utf-8")) for name, path in presets.items()}
    known = {"none", *frameworks}
    return [name for name, needed in needs.items() if not needed or needed[1] in known]


def stage(checkout: Path, folder: Path) -> None:
    """Put the trainers of a checkout below `folder` where they will lie in the image."""
    for source in files(checkout):
        target = folder / FOLDER / source.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o644)
    for path in (folder / FOLDER, *(folder / FOLDER).rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def compile_command(image: Path, folder: Path) -> list[str]:
    """What makes bytecode beside the staged trainers, with the image's own Python."""
    inside = ["sh", "-c", COMPILE, "sh", str(folder)]
    return ["apptainer", "exec", "--bind", str(folder), str(image), *inside]


def extract_file_system(image: Path, target: Path) -> None:
    """Copy the squashfs of a SIF. Raises SifError."""
    partition = next(item for item in sif.objects(image) if item.type == sif.PARTITION)
    with target.open("wb") as output:
        output.writelines(blocks(image, partition.offset, partition.size))


def append_command(folder: Path, squashfs: Path) -> list[str]:
    """What adds the staged files to a file system."""
    options = ["-all-root", "-no-recovery", "-quiet", "-no-progress"]
    return ["mksquashfs", str(folder), str(squashfs), *options]


def import_command(image: Path, trainers: Collection[str]) -> list[str]:
    """What imports each of these trainers in the finished image."""
    modules = [f"recipes.{name}" for name in trainers]
    # -P: the image's trainers, not those of the folder that this is run in.
    return ["apptainer", "exec", "--cleanenv", str(image), "python", "-P", "-c", IMPORT, *modules]
