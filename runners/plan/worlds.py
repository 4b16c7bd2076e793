"""Which worlds the gate checks in the job, and what the ranks get to form them."""

from __future__ import annotations

from ..core.remedy import change
from ..injob.rank.agents import AGENTS
from ..injob.rank.worlds import FRAMEWORKS, HOROVOD, TENSORFLOW
from .case import Case, Log
from .wireup import NO_CONTROLLER

GATE, TF_CONFIG = "gate", "tf-config"


def choose(case: Case, log: Log) -> None:
    """Say what is checked of several ranks."""
    size, spec = case.resources.tasks, case.spec
    _refuse_another(case, log)
    if not spec.gate:
        log.choose(GATE, False, case.why(GATE), "ranks that are each alone count as a success")
    elif size > 1 and spec.trainer.command:
        reason = f"each of these must have {size} ranks, and one of them must be formed"
        log.choose(GATE, ", ".join(FRAMEWORKS), reason)
    if spec.tf_config:
        log.choose(TF_CONFIG, True, case.why(TF_CONFIG), "TensorFlow changes where it is set")


def _refuse_another(case: Case, log: Log) -> None:
    """Refuse a packaged trainer whose framework is not there, or told of no other rank."""
    trainer, launcher, image = case.spec.trainer, log.chosen("launcher"), case.image
    what = f"{trainer.name} forms its world with {trainer.world}"
    if trainer.world == HOROVOD and image.fact("horovod.version") == "none":
        log.refuse(f"{what}, which {image.path.name} does not have", image.how("horovod.version"))
    elif trainer.world in (HOROVOD, TENSORFLOW) and launcher in AGENTS:
        why = f"the ranks of {launcher} are told how to form one with torch.distributed"
        log.refuse(what, why, change(leave_out=["launcher"]))
    elif trainer.world == HOROVOD and log.chosen("controller") == NO_CONTROLLER:
        why = f"Horovod is not prepared with --controller {NO_CONTROLLER}"
        log.refuse(what, why, change(leave_out=["controller"]))
