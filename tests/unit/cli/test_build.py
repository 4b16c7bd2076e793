"""What `runner build` prints when it is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.cli.images import build
from runners.cli.progress import Lines
from runners.images.build_and_record import Built


@pytest.mark.parametrize(
    ("built", "errors"),
    [
        (Built(Path("/i/a.sif")), ""),
        (
            Built(Path("/i/a.sif"), digest="sha256:9f", is_current=True),
            "nothing changed\nsha256:9f\n",
        ),
        (Built(Path("/i/a.sif"), digest="sha256:9f"), "sha256:9f\n"),
    ],
)
def test_the_path_is_the_output_and_what_is_known_stands_beside_it(
    capsys: pytest.CaptureFixture[str], built: Built, errors: str
) -> None:
    build.show(built, Lines())
    assert capsys.readouterr() == ("/i/a.sif\n", errors)
