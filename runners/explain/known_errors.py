"""Errors of other programs whose mending is known, though they do not name it: rows of a table."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from ..core.remedy import Remedy, change
from .explanation import Finding, Signature
from .facts import Facts
from .finding_helpers import certain, edit


class KnownError(NamedTuple):
    """What an error says (a regex), what it means, and what mends it."""

    name: str
    says: str
    cause: str
    fix: Callable[[Facts], Remedy]


KNOWN = (
    # Lightning 2.0 took it out
    KnownError(
        "no-horovod-strategy",
        r"cannot import name 'HorovodStrategy' from '(?:pytorch_)?lightning",
        "Lightning 2 has no HorovodStrategy any more; there is one in recipes.lightning_horovod, "
        "and `runner recipes copy lightning_mnist` shows its use",
        edit,
    ),
    # Keras 3 with the optimiser of Horovod 0.28
    KnownError(
        "keras-2",
        r"unexpected keyword argument 'experimental_run_tf_function'"
        r"|'Variable' object has no attribute 'ref'",
        "the trainer is written for Keras 2, and TensorFlow takes Keras 3 unless it is told",
        lambda facts: change(env=["TF_USE_LEGACY_KERAS=1"]),
    ),
)


def _judgement(known: KnownError) -> Callable[[Facts], Finding | None]:
    says = re.compile(known.says)

    def judge(facts: Facts) -> Finding | None:
        if not says.search(facts.error):
            return None
        return certain(facts, known.cause, known.fix(facts))

    return judge


SIGNATURES = tuple(Signature(known.name, _judgement(known)) for known in KNOWN)
