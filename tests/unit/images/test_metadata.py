"""What `runner inspect` shows beside the facts, and that nothing of an image is executed for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runners.core import sif
from runners.core.errors import RunnerError
from runners.images import metadata

from .. import sentences
from ..core.test_sif import make_sif

ATTRIBUTES = {
    "deffile": "Bootstrap: docker\n",
    "runscript": "#!/bin/sh\nexec python3\n",
    "test": "#!/bin/sh\ntrue\n",
    "helpfile": "What it is\n",
    "environment": {"/.singularity.d/env/90-environment.sh": "export A=1\n"},
    "labels": {"mine": "yes"},
}
RUNTIME = """#!/bin/sh
printf '%s\\n' "$@" > {folder}/asked
{answer}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def apptainer(folder: Path, answer: str, name: str = "apptainer") -> None:
    path = folder / "bin" / name
    path.write_text(RUNTIME.format(folder=folder, answer=answer))
    path.chmod(0o755)


def prints(value: object) -> str:
    return f"printf %s '{json.dumps(value)}'"


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_the_runtime_that_is_there_is_asked(here: Path, name: str) -> None:
    apptainer(here, prints({"data": {"attributes": ATTRIBUTES}, "type": "container"}), name)
    image = make_sif(here / "a.sif", {"mine": "yes"})
    found = metadata.read(image)
    assert found.problem is None
    assert found.sections() == {
        "environment": ATTRIBUTES["environment"],
        "help": "What it is\n",
        "runscript": "#!/bin/sh\nexec python3\n",
        "test": "#!/bin/sh\ntrue\n",
        "definition": "Bootstrap: docker\n",
    }
    asked = (here / "asked").read_text().split()
    assert (asked[0], asked[-2:]) == ("inspect", ["--json", str(image)])


def test_without_a_runtime_this_is_said(here: Path) -> None:
    found = metadata.read(make_sif(here / "a.sif", {}))
    assert list(found.texts()) == []
    assert found.problem is not None
    assert sentences.told(found.problem)[0] == "container-runtime-missing"


@pytest.mark.parametrize(
    ("answer", "id"),
    [
        ("echo broken >&2; exit 255", "inspect-failed"),
        ("echo no JSON", "inspect-unreadable"),
        (prints({"data": 1}), "inspect-unreadable"),
    ],
)
def test_a_runtime_that_fails_is_told(here: Path, answer: str, id: str) -> None:
    apptainer(here, answer)
    problem = metadata.read(make_sif(here / "a.sif", {})).problem
    assert isinstance(problem, RunnerError)
    assert sentences.told(problem)[0] == id


def test_a_file_without_metadata_shows_its_definition(here: Path) -> None:
    apptainer(here, "exit 1")
    image = make_sif(here / "a.sif", None, more=[(sif.DEFINITION, b"Bootstrap: yum\n")])
    found = metadata.read(image)
    assert list(found.texts()) == [("definition", "Bootstrap: yum")]
    assert not (here / "asked").exists()
    assert found.problem is not None
    show = f"apptainer inspect --all {image}"
    assert sentences.told(found.problem)[:2] == ("image-files-not-plain", show)


def test_a_sandbox_is_read_and_not_run(here: Path) -> None:
    apptainer(here, "exit 1")
    box = here / "a $(touch ran)"
    (box / ".singularity.d/env").mkdir(parents=True)
    secret = here / "secret"
    secret.write_text("of somebody else")
    (box / ".singularity.d/runscript").write_text("#!/bin/sh\nexec $(touch ran)\n")
    (box / ".singularity.d/test").symlink_to(secret)
    (box / ".singularity.d/env/10-a.sh").write_text("export A=$(touch ran)\n")
    (box / ".singularity.d/env/20-b.sh").symlink_to(secret)
    os.mkfifo(box / ".singularity.d/runscript.help")
    found = metadata.read(box)
    assert list(found.texts()) == [
        ("environment, /.singularity.d/env/10-a.sh", "export A=$(touch ran)"),
        ("runscript", "#!/bin/sh\nexec $(touch ran)"),
    ]
    assert found.problem is not None
    id, show, _ = sentences.told(found.problem)
    assert id == "image-files-not-plain"
    assert not show.startswith("apptainer"), "it would hand the path to a shell"
    assert not (here / "asked").exists()
    assert not list(here.rglob("ran"))


def test_a_link_to_a_folder_of_scripts_is_not_followed(here: Path) -> None:
    (here / "others").mkdir()
    (here / "others/10-a.sh").write_text("secret")
    (here / "box/.singularity.d").mkdir(parents=True)
    (here / "box/.singularity.d/env").symlink_to(here / "others")
    found = metadata.read(here / "box")
    assert list(found.texts()) == []
    assert found.problem is not None
    show = f"apptainer inspect --all {here}/box"
    assert sentences.told(found.problem)[:2] == ("image-files-not-plain", show)
