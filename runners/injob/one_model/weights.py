"""Defines what the ranks report of their weights, and the verdicts.

For each optimizer a rank reports a checksum of its parameters before steps 1, 4, 5, ... 66
(`traces`), and at the 4th, the 66th and at the end one for each parameter, with some of its values
(`checks`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable

from ...contract.run_files import read

FIRST_COMPARED, LAST_TRACED = 4, 66
# In place of a step: after the last one, and once more when the process ends
END, AFTER_END = 0, -1
# What watch_torch.py and watch_keras.py report
OPTIMIZERS = 16  # that are watched at a time; more are made by who steps each parameter on its own
KEPT_BYTES = 1 << 28  # of parameters that are kept until the end, though their optimizer is gone
FEW, MANY = 64, 1024  # values of a parameter that a checksum is made of
VALUES = 1000  # that a report has
ROUNDING = 1e-5  # a relative difference that is one of rounding
ROUNDING_OF_MIXED_PROCESSORS = 1e-2  # which sums up over the steps


def cpu_model() -> str:
    """Return the name of this node's CPU, "" where the kernel says none."""
    line = re.search(r"^(?:model name|CPU part)\s*:(.*)", read("/proc/cpuinfo"), re.MULTILINE)
    return line[1].strip() if line else ""


@dataclass(frozen=True)
class WeightSums:
    """A checksum and some values of each parameter."""

    checksums: Sequence[int]
    values: Sequence[Sequence[float]]


@dataclass
class OptimizerReport:
    """A rank's reports of one optimizer.

    `name` is the optimizer's; `group` are the ranks that are to have the same weights. `shapes` is
    a checksum of the parameters' shapes, `names` are theirs, rank 0's only. `sharded` is why they
    cannot be compared, `may_differ` why they may rightly be different; `layers` is whether layers
    exchange what they compute.
    `moments` says for each traced step how many collectives all ranks had made, and how many steps
    the rank has made since; -1 and the step where that is unknown. `first` is that number
    before the first step, `last` the moment of the last one. `loose` is whether no wrapper averages
    for it, and `replaced` are the traced steps before which others had replaced the weights.
    `steps` is how many it made in all, once it has ended, and `changed` whether the weights were
    changed after the last. `beside` are optimizers that made no step between its first and its
    last, with their steps by then; `follows` are those whose parameters it trains on. `losses` are
    the first three, `inputs` checksums of three inputs. `facts` are what tells the cause.
    """

    rank: int
    name: str = ""
    group: tuple[int, ...] = ()
    shapes: int = 0
    names: Sequence[str] = ()
    sharded: str = ""
    may_differ: str = ""
    processor: str = ""
    layers: bool = False
    traces: dict[int, int] = field(default_factory=dict)
    moments: dict[int, tuple[int, int]] = field(default_factory=dict)
    first: int | None = None
    last: tuple[int, int] = (-1, 0)
    loose: bool = False
    replaced: Sequence[int] = ()
    checks: dict[int, WeightSums] = field(default_factory=dict)
    steps: int | None = None
    changed: bool = False
    beside: Mapping[str, int] = field(default_factory=dict)
    follows: Sequence[str] = ()
    losses: Sequence[float] = ()
    inputs: Sequence[int] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class WeightResult(Enum):
    """The results, the worst last. OPEN: nothing is known yet."""

    EQUAL = "equal"
    COPIES = "copies"
    OPEN = "open"
    NOT_CHECKED = "not-checked"
    DIFFERENT = "different"


SEVERITY = tuple(WeightResult)


@dataclass(frozen=True)
class WeightsVerdict:
    """The result; `text` is for people, `parameter` the first that differs, `warning` advice.

    `partly` is whether others are equal, `from_start` whether the first step found them different,
    `overwritten` whether one rank's weights have replaced the others', `uneven` whether they made
    other numbers of steps.
    """

    result: WeightResult
    text: str = ""
    parameter: str = ""
    warning: str = ""
    overwritten: bool = False
    uneven: bool = False
    partly: bool = False
    from_start: bool = False


OPEN = WeightsVerdict(WeightResult.OPEN)


@contextlib.contextmanager
def told_if_it_fails(
    tell: Callable[..., None], optimizer: str, about: dict[str, Any] | None = None
) -> Iterator[None]:
    """Report why an optimizer's weights could not be read, and do not fail the training.

    From then on this replaces what was known `about` them.
    """
    try:
        yield
    except Exception as error:
        about = {} if about is None else about
        about.clear()
        about["sharded"] = f"the check failed ({type(error).__name__}: {error})"[:200]
        tell(optimizer=optimizer, step=END, **about)
