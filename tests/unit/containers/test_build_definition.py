"""What a build of a user's definition has of the building machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from containers import build_definition
from containers.build_definition import DefinitionBuild


class Runtime:
    """A stand-in that notes the build that it is to run."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary

    def build(self, build: Any, log: Path, folder: Path | None) -> None:
        self.binds = dict(bind.split(":")[:2][::-1] for bind in build.binds)


def test_no_other_user_gets_at_the_tmp_of_a_build(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    runtime, out = Runtime(tmp_path), tmp_path / "x.sif"
    asked = DefinitionBuild("Bootstrap: scratch\n", "x.def", tmp_path, out)
    made, _ = build_definition._steps(asked, out, cast(Any, runtime), tmp_path / "log")
    made.make()
    assert set(runtime.binds) == {"/tmp", "/var/tmp"}
    for source in map(Path, runtime.binds.values()):
        assert source.stat().st_mode & 0o7777 == 0o1777  # for users of the image
        assert source.parent.stat().st_mode & 0o077 == 0
