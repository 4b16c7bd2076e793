"""What the settings ask of GPUs: how many, none, one rank for each; refuses contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core import gpus
from ..core.command_line import FLAG, PRESET, Given
from ..core.errors import UsageError
from ..core.model import Resources
from ..core.remedy import change
from .config import Config


def without_none(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of Resources without requests for 0 GPUs, and those that a typed 0 overrules.

    Raises UsageError where one place asks for GPUs and for none.
    """
    texts = {name: values[name.replace("-", "_")] for name in gpus.SETTINGS}
    none = [name for name in texts if gpus.is_none(name, texts[name])]
    if not none:
        return dict(values)
    some = [name for name in texts if name not in none and gpus.asks(name, texts[name])]
    gone = [*none, *_overruled(config, texts, none, some)]
    left = {name.replace("-", "_"): None for name in gone}
    return {**values, **left, **({"gres": gpus.without(values["gres"])} if "gres" in gone else {})}


def check_number(name: str, text: str) -> None:
    """Refuse what is not [TYPE:]N; a type alone, as of a part of a GPU, has no number."""
    if gpus.TYPED.fullmatch(text):
        return
    kind = text.rstrip(":")
    typed = gpus.TYPE.fullmatch(kind)
    raise UsageError(
        f"--{name} {text!r} is not [TYPE:]N",
        f"{kind} is a type, and the number is missing" if typed else "",
        [change({name: f"{kind}:1" if typed else "A100:4"})],
        id="gpus-malformed",
    )


def _overruled(
    config: Config, texts: Mapping[str, str | None], none: Sequence[str], some: Sequence[str]
) -> Sequence[str]:
    """Return the requests for GPUs that a 0 overrules: what is typed wins over what files say."""
    typed = {setting.name for setting in config.given if setting.origin == FLAG}
    no_typed, some_typed = typed & set(none), typed & set(some)
    if not some or bool(no_typed) is not bool(some_typed):
        return () if some_typed else some
    options = " and ".join(f"--{name} {texts[name]}" for name in (*none, *some))
    raise UsageError(
        f"{options} ask for GPUs and for none",
        remedy=[change(leave_out=names) for names in (none, some)],
        id="gpus-and-none",
    )


def with_ranks(resources: Resources, given: Sequence[Given], ranks: bool) -> Resources:
    """Return a request in which ranks have GPUs: with `ranks` one for each, and its GPU's CPUs.

    Unless a number was asked for; that of CPUs in a trainer's preset is for CPUs alone.
    """
    _, number = gpus.on_a_node(resources) or ("", 0)
    if not number:
        return resources
    if any(setting.name == "cpus-per-task" and setting.origin == PRESET for setting in given):
        resources = replace(resources, cpus_per_task=None)  # a GPU's part of its node fits better
    settled = resources.ntasks_per_node is not None or resources.ntasks is not None
    return replace(resources, ntasks_per_node=number) if ranks and not settled else resources


def check(resources: Resources) -> None:
    """Refuse requests for GPUs that say two things."""
    ways = {
        "--gpus-per-node": resources.gpus_per_node,
        "--gres": resources.gres if gpus.in_gres(resources.gres) else None,
    }
    # A 0 beside a number is refused by without_none.
    given = {n: text for n, text in ways.items() if text and not gpus.is_none(n[2:], text)}
    if len(given) == 2 and gpus.in_gres(resources.gres) != gpus.typed(
        resources.gpus_per_node or ""
    ):
        options = " and ".join(f"{name} {text}" for name, text in given.items())
        raise UsageError(
            f"{options} ask for different GPUs",
            remedy=[change(leave_out=[name[2:]]) for name in given],
            id="gpus-contradict",
        )
    if resources.gpus and gpus.typed(resources.gpus)[1] % resources.nodes:
        gpus_per_node = gpus.shared_out(resources.gpus, resources.nodes)
        raise UsageError(
            f"--gpus {resources.gpus} cannot be shared evenly by --nodes {resources.nodes}",
            remedy=change(gpus_per_node=gpus_per_node, leave_out=["gpus"]),
            id="gpus-uneven",
        )
