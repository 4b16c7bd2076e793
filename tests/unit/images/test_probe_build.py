"""What an image's Horovod was built with, asked of stand-ins for its modules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.core import shell
from runners.images.facts import probe_image

BUILT = "print('a warning')\nmpi_built = nccl_built = lambda: {}\ngloo_built = lambda: True\n"
TORCH, WITHOUT_MPI = BUILT.format("2718"), BUILT.format("False")


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ({"torch.py": TORCH}, ("pytorch", "mpi,gloo", "nccl,mpi,gloo")),
        (
            {"torch.py": WITHOUT_MPI, "tensorflow.py": WITHOUT_MPI},
            ("tensorflow,pytorch", "gloo", "gloo"),
        ),
        ({"tensorflow.py": "raise SystemExit('no library')"}, ("none", "none", "none")),
        (None, ()),
    ],
)
def test_each_framework_is_asked_once(
    tmp_path: Path, modules: dict[str, str] | None, expected: tuple[str, ...]
) -> None:
    for name, text in (
        {"__init__.py": "print('hello')", **modules}.items() if modules is not None else ()
    ):
        (tmp_path / "horovod").mkdir(exist_ok=True)
        (tmp_path / "horovod" / name).write_text(text)
    done = shell.run(probe_image.build_script(), {**os.environ, "PYTHONPATH": str(tmp_path)})
    kinds = ("frameworks", "controllers", "operations")
    told = {f"horovod.{kind}": names for kind, names in zip(kinds, expected)}
    assert probe_image.parse_build(done.out) == told
