"""Slurm's words for schedulers that have others: what they lack is refused by name. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from ..model import JobSpec, Refusal, Resources
from . import times


def unknown(
    spec: JobSpec, title: str, has: frozenset[str], hints: Mapping[str, str]
) -> list[Refusal]:
    """Return a refusal for each setting that was given and is not among those it `has`.

    `hints` has what to type instead, by setting; --sbatch-arg takes any directive as it is.
    """
    found = []
    for name in asked(spec.resources):
        if name not in has:
            option = "--" + name.replace("_", "-")
            hint = hints.get(name, "--sbatch-arg 'DIRECTIVE', which goes into the script as it is")
            evidence = f"{option} is {getattr(spec.resources, name)}"
            found.append(Refusal(f"{title} has no {option}", evidence, (hint,)))
    return [*found, *_endless(spec, title), *_output(spec, title)]


def asked(resources: Resources) -> Iterator[str]:
    """Yield the names of the resources that were asked for."""
    for item in fields(resources):
        if getattr(resources, item.name) not in (None, False):
            yield item.name


def _endless(spec: JobSpec, title: str) -> Iterator[Refusal]:
    limit = spec.resources.time
    if limit is None:
        yield Refusal(f"{title} wants a time limit", "--time is not given", ("--time 01:00:00",))
    elif times.seconds(limit) is None:
        yield Refusal(f"{title} has no --time {limit}", "", ("--time 01:00:00",))


def _output(spec: JobSpec, title: str) -> Iterator[Refusal]:
    if "%" in (spec.output or ""):
        what = f"{title} fills in no patterns such as %j"
        yield Refusal(what, f"--output is {spec.output}", ("--output NAME",))
