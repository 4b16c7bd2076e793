"""Two ranks sum inside an image: by its own self-test, or by ours where it has none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from containers.horovod_image import selftest

from ..core import shell
from . import isolated_exec, probe

SECONDS = 1500  # twenty times what is normal; each part has a shorter limit of its own
FRAMEWORKS = {"pytorch": "torch", "tensorflow": "tensorflow"}
AGREED = "ranks agree"
# A line of our self-test, such as "controllers: MPI, Gloo".
BUILT = re.compile(rf"^({'|'.join(probe.WORDS)}): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Proof:
    """What Horovod says it was built with, what agreed, and the output of what did not."""

    built: dict[str, str]
    agreed: str
    failure: str = ""


def own(image: Path) -> Proof:
    """Let one of our images prove itself, which begins with check-build."""
    done = isolated_exec.run(image, ["python", "-m", "horovod_image.selftest"], SECONDS)
    built = {probe.WORDS[kind]: names.lower() for kind, names in BUILT.findall(done.out)}
    return Proof({fact: names.replace(", ", ",") for fact, names in built.items()}, *_said(done))


def foreign(image: Path) -> Proof:
    """Bind our self-test into an image of others; each framework has to agree."""
    built = probe.check_build(image)
    pairs = testable(built)
    if not pairs:
        return Proof(built, "", "there is no Horovod in it that could be tested")
    said = [_said(_prove(image, *pair)) for pair in pairs]
    agreed, failures = ("\n".join(filter(None, texts)) for texts in zip(*said))
    return Proof(built, agreed, failures)


def testable(built: dict[str, str]) -> list[tuple[str, str]]:
    """Return each framework with a controller, Gloo if there is a choice: it needs less around."""
    frameworks, controllers = (
        built.get(probe.WORDS[kind], "").split(",") for kind in ("frameworks", "controllers")
    )
    usable = [name for name in ("gloo", "mpi") if name in controllers][:1]
    return [(FRAMEWORKS[name], usable[0]) for name in FRAMEWORKS if name in frameworks and usable]


def _prove(image: Path, framework: str, controller: str) -> shell.Result:
    file = Path(selftest.__file__).resolve()
    argv = ["python3", str(file), "prove", framework, controller]
    return isolated_exec.run(image, argv, SECONDS, bind=file)


def _said(done: shell.Result) -> tuple[str, str]:
    """Return the lines of what agreed, and the whole output when something failed."""
    agreed = "\n".join(line for line in done.out.splitlines() if AGREED in line)
    return agreed, f"{done.out}{done.err}".strip() if done.code else ""
