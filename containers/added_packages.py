"""Finds and fetches the packages that an image is to have besides, by its own Python and pip.

It happens before the build, with the machine's pip configuration bound into a container of the
base: the build itself then needs no index, so that nothing of the configuration gets into it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.core import atomic
from runners.core.errors import Refused, RunnerError, SystemFault, UsageError

from . import apptainer, import_added, lockfile, log_causes, pip
from .apptainer import Apptainer
from .definition import STAGE, Base
from .foreign_horovod import HorovodBuild

# PEP 440; distributions patch some packages and number them in their own way.
VERSION = re.compile(
    r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+([._-][a-z0-9]+)*)?"
)
# New packages only: compiling all of a large image again would take minutes.
COMPILE = """\
import re, sys
from importlib.metadata import files
for line in open("/mnt/requirements.txt"):
    for file in files(re.split("[ =]", line)[0]) or ():
        if file.suffix == ".py":
            print(file.locate())
"""
FIND = """\
for program in /opt/horovod/bin/python python3 python; do
    if command -v "$program" > /dev/null; then exec "$program" -s -c "$1"; fi
done
exit 42
"""
NO_PYTHON = 42
PROBE = """\
import json, sys
from importlib.metadata import distributions
try:
    from pip import __version__ as pip
except ImportError:
    pip = ""
found = {}
for package in distributions():
    if package.metadata["Name"]:
        found.setdefault(package.metadata["Name"], package.version)
print(json.dumps({"python": sys.executable, "pip": pip, "packages": found}))
"""
# The folder of the requirements and the current one, which names in them belong to, are seen in
# these: in their own places they could hide what the image has there.
FOLDER, CURRENT = "/srv", "/media"
LOCAL = "# local "  # in a lock: a wheel that no index has
OLDEST_PIP = (22, 2)  # the first with --dry-run and --report
BY_DEFINITION = "Use --def my.def with a %post that installs what is needed."
CONFLICT = """\
{wanted} cannot be added to {base} without replacing what the image has:
{held}
They were built and tested with each other, so they stay as they are. Loosen the requirements, or
use --def my.def with a virtual environment of your own in its %post.
{evidence}"""
BAD_FILE = ("Invalid requirement", "Could not open requirements file")
EVIDENCE = 15  # lines


@dataclass(frozen=True)
class Inside:
    """The Python of an image, and the versions of the packages it sees."""

    python: str
    pip: str  # its version, "" where there is none
    packages: Mapping[str, str]


def find_python(base: Base) -> Inside:
    """The Python that the base has. Refused when it has none, or no pip that can do this."""
    done = apptainer.ask(base.path, "sh", "-c", FIND, "sh", PROBE)
    if done.returncode == NO_PYTHON:
        raise Refused(
            f"{base.path.name} has no Python to install packages into.\n{BY_DEFINITION}",
            id="base-without-python",
        )
    if done.returncode:
        raise SystemFault(
            f"the Python of {base.path.name} cannot be asked:\n{done.stderr.strip()}",
            id="base-python-broken",
        )
    inside = Inside(**json.loads(done.stdout.splitlines()[-1]))
    if not inside.pip:
        raise Refused(
            f"{inside.python} in {base.path.name} has no pip.\n{BY_DEFINITION}",
            id="base-without-pip",
        )
    if tuple(map(int, inside.pip.split(".")[:2])) < OLDEST_PIP:
        raise Refused(
            f"pip {inside.pip} in {base.path.name} cannot say what it would install; that needs"
            f" {'.'.join(map(str, OLDEST_PIP))} or newer.\n{BY_DEFINITION}",
            id="base-pip-too-old",
        )
    return inside


@dataclass(frozen=True)
class AddedPackages:
    """A requirements file for a base, or Horovod, and where the packages come from."""

    base: Base
    inside: Inside
    wanted: Path | HorovodBuild
    source: pip.PackageSource
    ca: Path | None

    @property
    def name(self) -> str:
        return "Horovod" if isinstance(self.wanted, HorovodBuild) else str(self.wanted)

    def fetch(self, runtime: Apptainer, folder: Path, stage: Path, log: Path) -> None:
        """Fill `stage` for the build; `folder` is for what must not be seen by it."""
        (folder / "wheels").mkdir()
        (folder / "constraints.txt").write_text(constraints(self.inside.packages))
        machine = {} if self.source.wheelhouse else pip.machine_settings()
        if self.ca:
            (folder / "ca.crt").write_bytes(apptainer.authorities(self.ca))
        authority = f"{STAGE}/ca.crt" if self.ca else ""
        settings = pip.settings(machine, self.source, Path.cwd(), authority)
        # Indexes may be named with a password.
        atomic.write_text(folder / "pip.conf", pip.render_settings(settings), private=True)
        container = self._container(folder, settings)
        command = [*container, *self._pip()]
        try:
            if isinstance(self.wanted, HorovodBuild):
                wanted = self.wanted.compile(runtime.run, container, self._pip(), folder, log)
            else:
                wanted = f"--requirement={FOLDER}/{self.wanted.name}"
            additions = self._resolve(runtime, [*command, "install", wanted], folder, log)
            (folder / "pins.txt").write_text(pins(additions))
            fetch = ["wheel", "--no-deps", "--wheel-dir", f"{STAGE}/wheels", "--requirement"]
            runtime.run([*command, *fetch, f"{STAGE}/pins.txt"], log)
        except RunnerError as error:
            raise self._explained(error, log) from error
        self._fill(stage, folder / "wheels", additions)

    def _container(self, folder: Path, settings: Mapping[str, str]) -> list[str]:
        mounts = [mount(folder, STAGE), mount(Path.cwd(), CURRENT)]
        if isinstance(self.wanted, Path):
            mounts.append(mount(self.wanted.parent, FOLDER, "ro"))
        mounts += [mount(path, str(path), "ro") for path in self._local(settings)]
        return [
            *("apptainer", "exec", "--cleanenv", "--no-mount", "cwd", "--pwd", CURRENT),
            *("--env", f"PIP_CONFIG_FILE={STAGE}/pip.conf", "--env", "PIP_BREAK_SYSTEM_PACKAGES=1"),
            *("--env", "PIP_PROGRESS_BAR=off"),
            *(word for value in mounts for word in ("--mount", value)),
            str(self.base.path),
        ]

    def _pip(self) -> list[str]:
        program = [self.inside.python, "-s", "-m", "pip"]
        return [*program, "--disable-pip-version-check", "--no-input"]

    def _local(self, settings: Mapping[str, str]) -> list[Path]:
        """What pip's settings name of this machine. UsageError for what would hide the image's."""
        paths = {path for path in pip.local_paths(settings) if path.exists()}
        for path in paths:
            if path in Path(self.inside.python).parents:
                raise UsageError(
                    f"packages cannot be taken from {path}: in the image, its Python is below it.\n"
                    "Name a folder of its own: --wheelhouse DIR",
                    id="wheelhouse-in-image",
                )
        return sorted(path for path in paths if not str(path).startswith(f"{STAGE}/"))

    def _resolve(
        self, runtime: Apptainer, install: Sequence[str], folder: Path, log: Path
    ) -> list[pip.Addition]:
        ask = ["--dry-run", "--report", f"{STAGE}/report.json"]
        runtime.run([*install, *ask, "--constraint", f"{STAGE}/constraints.txt"], log)
        additions = pip.additions((folder / "report.json").read_text(encoding="utf-8"))
        if not additions:
            base = self.base.path.name
            raise Refused(
                f"{base} has everything in {self.name} already; nothing to add", id="nothing-to-add"
            )
        return additions

    def _explained(self, error: RunnerError, log: Path) -> RunnerError:
        """Pip's failure in words, when it is one that its users can fix."""
        if isinstance(error, (Refused, UsageError)):
            return error
        text = log.read_text(encoding="utf-8", errors="replace")
        if isinstance(self.wanted, Path):
            text = text.replace(f"{FOLDER}/", f"{self.wanted.parent}/")
        evidence = log_causes.last_lines(text, EVIDENCE)
        if conflicting := held(text):
            listed = "\n".join(f"  {pin}" for pin in conflicting)
            base = self.base.path.name
            facts = {"wanted": self.name, "base": base, "held": listed, "evidence": evidence}
            return Refused(CONFLICT.format(**facts), id="packages-conflict")
        if any(words in text for words in BAD_FILE):
            return UsageError(
                f"pip cannot read {self.name}:\n{evidence}", id="requirements-unreadable"
            )
        if pin := pip.missing(text):
            return pip.NoFile.of(pin, self.source, evidence)
        return error

    def _fill(self, stage: Path, wheels: Path, added: Sequence[pip.Addition]) -> None:
        """What the build finds: wheels, their lock, and what joins the image's lock.

        There a wheel that no index has, of a wheelhouse or built here, stands in a comment.
        """
        of_an_index = {item.sha256 for item in added}
        requested = [item.name for item in added if item.requested]
        shutil.move(str(wheels), stage / "wheels")
        pins = [lockfile.pin_of(path) for path in (stage / "wheels").glob("*.whl")]
        (stage / "requirements.txt").write_text(lockfile.lines(pins))
        listed = lockfile.lines(pin for pin in pins if pin.sha256 in of_an_index)
        others = (pin for pin in pins if pin.sha256 not in of_an_index)
        (stage / "added.lock").write_text(listed + lockfile.lines(others, LOCAL))
        (stage / "list.py").write_text(COMPILE)
        (stage / "requested.txt").write_text("\n".join(requested))
        shutil.copyfile(import_added.__file__, stage / "import_added.py")


def mount(source: Path, target: str, *options: str) -> str:
    """The value of Apptainer's --mount, which unlike --bind takes any name: a line of CSV."""
    fields = ["type=bind", f"source={source}", f"destination={target}", *options]
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def pins(additions: Sequence[pip.Addition]) -> str:
    """A requirements file of exactly these; with hashes when all are known."""
    hashed = all(item.sha256 and not item.url for item in additions)
    lines = []
    for item in additions:
        pin = f"{item.name} @ {item.url}" if item.url else f"{item.name}=={item.version}"
        lines.append(f"{pin} --hash=sha256:{item.sha256}\n" if hashed else f"{pin}\n")
    return "".join(lines)


def constraints(packages: Mapping[str, str]) -> str:
    """A constraints file that keeps every package of the image as it is."""
    return "".join(
        f"{name}=={version}\n"
        for name, version in sorted(packages.items())
        if VERSION.fullmatch(version)
    )


def held(log: str) -> list[str]:
    """The packages of the image that pip says cannot stay as they are, as NAME==VERSION."""
    mark = "(constraint) "
    return sorted({line.partition(mark)[2].strip() for line in log.splitlines() if mark in line})
