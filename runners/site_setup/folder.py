"""The folder of a set-up: whose it is, where what lies in it, and how it is written.

site-setup.json                    says that the folder is ours
modulefiles/horovod-runner/0.1.0   for `module load horovod-runner`
0.1.0/                             what that module file names, for each version its own
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from containers import atomic

from .. import __version__
from ..core import files
from ..core.errors import Refused, SystemFault, UsageError

MODULE = "horovod-runner"
FORM = 1
# Lmod 8.6 or Environment Modules 5.2 load nothing from a folder with one of these in its name;
# ':' ends a path within PATH.
UNUSABLE = re.compile(r'[^!-~]|[${}"\\:]|]=')


@dataclass(frozen=True)
class SetUp:
    """Where all lies. `root` is absolute, its links as they were typed: users reach it so."""

    root: Path

    @property
    def marker(self) -> Path:
        return self.root / "site-setup.json"

    @property
    def modules(self) -> Path:
        return self.root / "modulefiles"

    @property
    def module_file(self) -> Path:
        return self.modules / MODULE / __version__

    @property
    def launcher(self) -> Path:
        return self.root / __version__ / "bin" / "runner"

    @property
    def guide(self) -> Path:
        return self.root / __version__ / "guide.md"

    @property
    def sites(self) -> Path:
        return self.root / "sites"

    @property
    def own_sites(self) -> Path:
        """Copies of the administrator's profiles."""
        return self.sites / "own"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def data(self) -> Path:
        return self.root / "data"

    def completion(self, shell: str) -> Path:
        return self.root / __version__ / "completion" / f"runner.{shell}"


def at(path: Path) -> SetUp:
    """Return the set-up in a folder that is new, empty or of an earlier set-up.

    Raises UsageError for a name from which modules cannot be loaded, Refused for a folder that
    holds other things.
    """
    root = Path(os.path.abspath(path))
    found = UNUSABLE.search(str(root))
    if found:
        raise UsageError(
            f"no module can be loaded from {str(root)!r}: {found[0]!r} is in its name",
            "Lmod and Environment Modules take letters and digits of ASCII, and most signs,\n"
            'but no spaces, and none of $ { } " \\ :',
        )
    setup = SetUp(root)
    if os.path.lexists(root) and not root.is_dir():
        raise Refused(f"{root} is a file, not a folder")
    _check_owned(setup)
    return setup


def _check_owned(setup: SetUp) -> None:
    try:
        others = sorted(os.listdir(setup.root)) if setup.root.is_dir() else []
        ours = files.read_versioned(setup.marker, FORM) is not None
    except OSError as error:
        raise Refused(f"cannot read {setup.root}", str(error)) from None
    if others and not ours:
        raise Refused(
            f"{setup.root} holds other things, and {setup.marker.name} is not among them",
            ", ".join(others[:5]) + (", ..." if len(others) > 5 else ""),
            "runner site-setup NEW-FOLDER",
        )


@dataclass(frozen=True)
class Content:
    """What a set-up is to hold: text by path, folders that may stay empty, facts of the marker."""

    texts: Mapping[Path, str]
    folders: Sequence[Path]
    facts: Mapping[str, str]


def write(setup: SetUp, content: Content) -> None:
    """Write all, readable for everybody, the module file last.

    A new folder appears whole or not at all; in one that is there each file is replaced in one
    step. Raises SystemFault where that fails.
    """
    try:
        with _for_everybody():
            if setup.root.exists():
                _write_into(setup.root, setup, content)
            else:
                with atomic.new_folder(setup.root) as part:
                    _write_into(part, setup, content)
    except OSError as error:
        raise SystemFault(f"cannot write into {setup.root}", str(error)) from None


def _write_into(root: Path, setup: SetUp, content: Content) -> None:
    files.write_versioned(SetUp(root).marker, FORM, content.facts)
    for path in content.folders:
        (root / path.relative_to(setup.root)).mkdir(exist_ok=True)
    last = setup.module_file
    for path, text in sorted(content.texts.items(), key=lambda each: each[0] == last):
        with atomic.new_file(root / path.relative_to(setup.root)) as part:
            part.write_text(text, encoding="utf-8")
            if path == setup.launcher:
                part.chmod(0o755)
    for path in SetUp(root).sites.rglob("*.toml"):  # of an earlier set-up with another profile
        if setup.root / path.relative_to(root) not in content.texts:
            path.unlink()


@contextmanager
def _for_everybody() -> Iterator[None]:
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def closed(path: Path) -> Path | None:
    """Return the outermost folder or file that keeps other users from `path`, None without one.

    Group and access lists are not looked at: they may let in whom they should.
    """
    real = path.resolve()
    for each in reversed([real, *real.parents]):
        needed = 0o001 if each != real else 0o005 if real.is_dir() else 0o004
        if each.exists() and each.stat().st_mode & needed != needed:
            return each
    return None
