"""Renew locks: python3 -m containers.lock [cpu] [gpu] [--arch ARCH] [--extra-index-url URL]

Resolves the `.in` files to exact versions and hashes, and notes the versions of Debian's packages
by making the bases; a base for another architecture needs emulation, the rest does not. An image
whose Python is another than this one is done by that one, because pip evaluates environment markers
for the Python that runs it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runners.core import atomic
from runners.core.errors import Refused, RunnerError, SystemFault
from runners.core.machine import AMD64, MACHINES, architecture

from . import build_modes, debian, image_catalogue, lockfile, pip, process
from .lockfile import Pin

HEADER = """\
Do not edit: written by python3 -m containers.lock from {inputs}.
All that the image installs, for CPython {python} on Linux {machine}, first what Horovod is compiled
against; in comments what compiling it needs besides, and the versions of Debian's packages."""
PYTHON = ".".join(platform.python_version_tuple()[:2])
# pip has options for a machine's wheels, and none for its markers: it asks platform.machine().
MACHINE = "import platform\nplatform.machine = lambda: {machine!r}\n"
# What Horovod is compiled against, by name in the images' `.in` files; all these require belongs
# to it.
AGAINST = (
    *("torch", "tensorflow", "tensorflow-cpu", "tf-keras", "numpy"),
    *("cffi", "cloudpickle", "packaging", "psutil", "pyyaml", "setuptools"),
)


def resolve(
    machine: str, requirements: Sequence[Path], options: Sequence[str], constraints: Sequence[Pin]
) -> list[Pin]:
    """Ask pip what `requirements` come to on a machine, such as aarch64.

    `constraints` are the versions of what they name.
    """
    with tempfile.TemporaryDirectory() as folder:
        limits, site = Path(folder, "constraints.txt"), Path(folder, "site")
        limits.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in constraints))
        site.mkdir()
        (site / "sitecustomize.py").write_text(MACHINE.format(machine=machine))
        command = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report=-"]
        wanted = [f"--requirement={path}" for path in requirements]
        where = [f"--constraint={limits}", f"--target={folder}"]
        report = pip.run([*command, *wanted, *where, *options], {"PYTHONPATH": str(site)})
    return [
        Pin(lockfile.normalised(package.name), package.version, package.sha256)
        for package in pip.additions(report)
    ]


def compiled_against(
    machine: str, text: str, options: Sequence[str], pins: Sequence[Pin]
) -> set[str]:
    """The names of those pins that Horovod is compiled against; `text` asked for all of them."""
    pinned = [line for line in text.splitlines() if re.split(r"[^\w-]", line)[0] in AGAINST]
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "against.in")
        requirements.write_text("\n".join(pinned))
        return {pin.name for pin in resolve(machine, [requirements], options, pins)}


def interpreter(python: str, pyenv: Path) -> str:
    """A Python of that version that runs: on PATH, or one of pyenv's. Refused without one."""
    others = sorted(pyenv.glob(f"versions/{python}.*/bin/python{python}"))
    for program in filter(None, [shutil.which(f"python{python}"), *map(str, others)]):
        # What pyenv puts on PATH is there for every version, and fails for most.
        if subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
            return program
    raise Refused(
        f"a lock for Python {python} is renewed by Python {python}, which is not here.\n"
        f"Install it (Debian: python{python} and python3-pip), or leave that image out.",
        id="lock-python-missing",
    )


def renew_python(image: image_catalogue.Image, source: pip.PackageSource) -> None:
    """Write the wheels of an image's lock. Raises RunnerError."""
    folder, machine = image_catalogue.HERE, MACHINES[image.architecture]
    target = pip.target(image.python, image.glibc_minor, machine)
    lock, wheels = folder / image.lock, [*target, *source.options()]
    wanted = [folder / name for name in image.requirements]
    pins = resolve(machine, wanted, wheels, [])
    text = "\n".join(path.read_text(encoding="utf-8") for path in wanted)
    first = compiled_against(machine, text, wheels, pins)
    runtime = [pin for pin in pins if pin.name not in image.provided]
    against = [pin for pin in runtime if pin.name in first]
    others = [pin for pin in runtime if pin.name not in first]
    inputs = [folder / name for name in image.build_inputs]
    tools = resolve(machine, inputs, wheels, runtime)
    # The one package taken as source. All that it requires is among the packages of the image.
    archive = ["--no-deps", "--no-binary=horovod", *source.options()]
    tools += resolve(machine, [folder / image_catalogue.SOURCE_INPUT], archive, runtime)
    present = {pin.name for pin in runtime}
    build = [pin for pin in tools if pin.name not in present]
    names = ", ".join([*image.requirements, *image.build_inputs, image_catalogue.SOURCE_INPUT])
    header = HEADER.format(inputs=names, python=image.python, machine=machine)
    text = lockfile.render(against, others, header) + lockfile.lines(build, lockfile.BUILD_MARK)
    if lock.exists():
        old = {section: lockfile.debian(lock, section) for section in debian.SECTIONS}
        text += lockfile.render_debian(old)
    atomic.write_text(lock, text)
    print(f"{image.lock}: packages of Python: {len(runtime)}, to compile: {len(build)}")


def renew_debian(image: image_catalogue.Image) -> None:
    """Write the versions of the Debian packages, as the archive has them now, into the lock."""
    build_modes.needs_emulation(image.architecture)
    lock = image_catalogue.HERE / image.lock
    definitions = zip(debian.SECTIONS, (image.definition, image.wheel_definition))
    sections = {
        name: installed_versions(image, image_catalogue.HERE / path) for name, path in definitions
    }
    text = "".join(
        line
        for line in lock.read_text(encoding="utf-8").splitlines(keepends=True)
        if not lockfile.DEBIAN.match(line)
    )
    atomic.write_text(lock, text + lockfile.render_debian(sections))
    counts = ", ".join(f"{len(packages)} ({name})" for name, packages in sections.items())
    print(f"{image.lock}: packages of Debian: {counts}")


def installed_versions(image: image_catalogue.Image, path: Path) -> dict[str, str]:
    """What a definition's packages come to today: by making its base. Raises RunnerError."""
    archive = debian.find_archive(os.environ)
    mode = "root" if os.geteuid() == 0 else "unshare"
    with tempfile.TemporaryDirectory() as folder:
        layer = Path(folder, "base.tar")
        wanted = image.codename, image.components, image.packages(path), layer
        command = debian.argv(archive, *wanted, mode, image.architecture)
        process.run(command, Path(folder, "log"), os.environ)
        return debian.installed(layer)


def renew(image: image_catalogue.Image, options: argparse.Namespace, words: Sequence[str]) -> None:
    """Renew one image's lock, by a Python of the image's version. Raises RunnerError."""
    if image.python != PYTHON:
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        program = [interpreter(image.python, pyenv), "-m", "containers.lock"]
        command = [*program, image.short, f"--arch={image.architecture}", *words]
        if subprocess.run(command, cwd=image_catalogue.CHECKOUT).returncode:
            raise SystemFault(
                f"{image.lock} was not renewed; the reason is above", id="lock-not-renewed"
            )
        return
    if options.only != "debian":
        renew_python(image, pip.PackageSource.of(vars(options)))
    if options.only != "python":
        renew_debian(image)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m containers.lock", description=__doc__)
    parser.add_argument("image", nargs="*", help="default: all of them")
    parser.add_argument("--only", choices=["python", "debian"], help="leave the other part")
    parser.add_argument("--arch", choices=sorted(MACHINES), help="default: all of them")
    pip.add_options(parser)
    options = parser.parse_args(argv)
    words = [word for word in argv if word not in options.image]
    # This machine's first: the others' may be refused for want of emulation.
    kinds = [options.arch] if options.arch else sorted(MACHINES, key=architecture().__ne__)
    try:
        for kind, name in itertools.product(kinds, options.image or image_catalogue.IMAGES):
            if options.image or kind == AMD64 or name in image_catalogue.FOR_ARM:
                renew(image_catalogue.image(name, kind), options, words)
    except RunnerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
