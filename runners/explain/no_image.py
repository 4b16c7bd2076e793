"""An explanation's words where there is no image: `--runtime none`, with an environment."""

from __future__ import annotations

import re
from dataclasses import replace
from shlex import quote

from ..core.remedy import ADVICE, Remedy, advice
from .explanation import Explanation
from .facts import Facts

# Not where it is true of images alone
IMAGE = re.compile(
    r"(?<![-\w./$])image\b(?![-\w./=]| is read-only| cannot be written to| of (?:NVIDIA|CUDA)\b)"
)
BUILD = re.compile(r"runner build --from \S+ -r more\.txt -o more\.sif")
# What is done with an image or a container alone
OF_IMAGES = re.compile(r"runner (?:build|pull|verify)\b|--apptainer-arg|--(?:bind|stage-image)\b")


def worded(explanation: Explanation, facts: Facts) -> Explanation:
    """Return the explanation of a run without an image in words of its environment."""
    if not facts.plan.launching or facts.plan.launching.runtime != "none":
        return explanation
    every = [_of_environment(step, facts.image) for step in explanation.steps]
    steps = tuple(step for step in every if not OF_IMAGES.search(step)) or tuple(every)
    return replace(
        explanation,
        cause=_of_environment(explanation.cause, facts.image),
        because=_of_environment(explanation.because, facts.image),
        fix=_fix(explanation.fix, steps, facts.image),
        steps=steps,
    )


def _fix(fix: Remedy | None, steps: tuple[str, ...], image: str) -> Remedy | None:
    if fix is None or not fix.text:
        return fix
    if fix.kind == ADVICE and steps:
        return advice("\n".join(steps))
    return replace(fix, text=_installed(fix.text, image))


def _of_environment(text: str, image: str) -> str:
    text = _installed(text, image).replace("in the container", "in the environment")
    text = text.replace("runner shell --image", "runner shell --runtime none --image")
    parts = text.split("`")
    said = (part if at % 2 else IMAGE.sub("environment", part) for at, part in enumerate(parts))
    return "`".join(said)


def _installed(text: str, image: str) -> str:
    """Return a line that adds packages to an image as one that installs them here."""
    return BUILD.sub(lambda _: f"{quote(image)}/bin/python -m pip install -r more.txt", text)
