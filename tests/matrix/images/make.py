"""Makes images as an ordinary user in the toolbox: python -m tests.matrix.images.make NAME=FILE...

The caller binds the wheels of the CPU image, those of the MPIs, and a folder for the results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from containers import build_modes, debian, image_catalogue, process
from containers.apptainer import Apptainer, Build
from containers.build_plan import EPOCH, USUAL_LEVEL, ZSTD
from tests.docker_archive import docker_archive

from . import kinds
from .kinds import Kind

WORK = Path("/scratch/ada/matrix-build")
# Where the caller binds what is made elsewhere, and what is made here.
WHEELS, MPIS, RESULTS = (Path("/var/cache", name) for name in ("wheels", "mpis", "out"))


@dataclass(frozen=True)
class More:
    """What one definition takes besides what all take."""

    files: Mapping[str, Path] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Maker:
    """The tools, and what all images share: a folder that is emptied at the end."""

    runtime: Apptainer
    log: Path
    objects: Path = WORK / "objects"  # what ccache keeps of one compilation for the next
    bases: dict[tuple[str, ...], Path] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Maker:
        """In the way of building that works on this machine."""
        process.empty(WORK)
        cls.objects.mkdir()
        settings = {"APPTAINER_TMPDIR": str(WORK), "APPTAINER_CACHEDIR": str(WORK / "cache")}
        environ = {**os.environ, **settings, "SOURCE_DATE_EPOCH": str(EPOCH)}
        return cls(Apptainer(build_modes.choose(environ), environ, WORK), RESULTS / "log")

    def base(self, packages: tuple[str, ...]) -> Path:
        """A base of Debian packages, made once."""
        if packages not in self.bases:
            archive = debian.find_archive(os.environ)
            layer, base = WORK / "layer.tar", WORK / f"base-{len(self.bases)}.tar"
            command = debian.argv(archive, kinds.CODENAME, ("main",), packages, layer)
            self.runtime.run(command, self.log)
            docker_archive(layer, base)
            layer.unlink()
            self.bases[packages] = base
        return self.bases[packages]

    def build(self, name: str, output: Path, kind: Kind, base: Path, more: More) -> None:
        """Run one of the definitions of this folder."""
        files = {
            "base.tar": base,
            "containers": image_catalogue.HERE,
            "mpi.lock": kind.lock_file,
            "mpis": MPIS,
            **more.files,
        }
        given = {"wanted": kinds.WANTED, **more.given}
        binds = (f"{WHEELS}:/mnt:ro", *more.binds)
        asked = Build(kinds.HERE / name, output, files, given, binds, ZSTD.format(USUAL_LEVEL))
        self.runtime.build(asked, self.log)

    def compile(self, kind: Kind) -> Path:
        """The folder of its compiled Horovod, made when it is not there."""
        target = RESULTS / kinds.compiled(kind)
        if not target.exists():
            part = WORK / "wheels"
            process.empty(part)
            given = {"mpi": "WITH" if kind.has_mpi else "WITHOUT"}
            more = More(given=given, binds=(f"{part}:/srv", f"{self.objects}:/media"))
            base = self.base(kinds.compile_packages())
            self.build("compile.def", WORK / "compile.sif", kind, base, more)
            process.run(["cp", "-r", str(part), f"{target}.part"], self.log, os.environ)
            os.replace(f"{target}.part", target)
        return target

    def image(self, kind: Kind, target: Path) -> None:
        """One image; its test is run."""
        more = More(files={"horovod": self.compile(kind)})
        part = target.with_suffix(".part")
        self.build("image.def", part, kind, self.base(kinds.PACKAGES), more)
        self.runtime.test(part, self.log)
        os.replace(part, target)


def main(argv: Sequence[str]) -> None:
    """Make each of NAME=FILE."""
    maker = Maker.here()
    try:
        for word in argv:
            name, _, file = word.partition("=")
            maker.image(kinds.KINDS[name], RESULTS / file)
    finally:
        process.empty(WORK)


if __name__ == "__main__":
    main(sys.argv[1:])
