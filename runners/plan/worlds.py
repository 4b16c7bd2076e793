"""Which worlds the gate checks in the job, and what the ranks get to form them."""

from __future__ import annotations

from ..injob.rank.worlds import FRAMEWORKS
from .case import Case, Log

GATE, TF_CONFIG = "gate", "tf-config"


def choose(case: Case, log: Log) -> None:
    """Say what is checked of several ranks."""
    size, spec = case.resources.tasks, case.spec
    if not spec.gate:
        log.choose(GATE, False, case.why(GATE), "ranks that are each alone count as a success")
    elif size > 1 and spec.trainer.command:
        reason = f"each of these must have {size} ranks, and one of them must be formed"
        log.choose(GATE, ", ".join(FRAMEWORKS), reason)
    if spec.tf_config:
        log.choose(TF_CONFIG, True, case.why(TF_CONFIG), "TensorFlow changes where it is set")
