"""Which process group the ranks join: what the gate checks, and what no trainer could join."""

from __future__ import annotations

from ..contract.enums import GATED, Controller, ProcessGroup
from ..core.model import AGENTS, BY_MODULES, RuntimeName
from ..core.plan import ChoiceId
from ..core.remedy import Remedy, change, command
from ..core.trainer import Framework, Trainer
from .case import Case, DecisionLog, Start

# Packaged trainers without --exchange: the one that does the same by torch.distributed.
WITH_TORCH = {"minimal_torch": "minimal_ddp"}


def gate(case: Case, start: Start, log: DecisionLog) -> None:
    """Record what the gate checks of several ranks, and what initializes their process group."""
    size, spec = start.resources.tasks, case.spec
    if spec.trainer.is_alone:
        _refuse_several(case, size, log)
    else:
        _refuse_another_world(case, start, log)
    if not spec.gate:
        log.choose(
            ChoiceId.GATE, False, case.why(ChoiceId.GATE), "independent ranks count as a success"
        )
    elif size > 1 and spec.trainer.command:
        reason = f"world-size check: one of them must create a process group of all {size} ranks"
        log.choose(ChoiceId.GATE, ", ".join(GATED), reason)
    if spec.tf_config:
        log.choose(
            ChoiceId.TF_CONFIG,
            True,
            case.why(ChoiceId.TF_CONFIG),
            "TensorFlow behaves differently if it is set",
        )


def _refuse_several(case: Case, size: int, log: DecisionLog) -> None:
    """Refuse several ranks of a packaged recipe that is one process."""
    if size > 1:
        what = f"{case.spec.trainer.name} is one process, and {size} ranks are asked for"
        leave_out = ["nodes", "ntasks", "ntasks-per-node"]
        log.refuse("one-process", what, "each would do all of it", change(leave_out=leave_out))


def _refuse_another_world(case: Case, start: Start, log: DecisionLog) -> None:
    """Refuse a packaged trainer whose framework is not there, or told of no other rank."""
    trainer, image, launcher = case.spec.trainer, case.image, start.launching.launcher
    what = f"{trainer.name} creates its process group with {trainer.world}"
    if trainer.world is ProcessGroup.HOROVOD and image.fact("horovod.version") == "none":
        into = command("runner", "build", "horovod", "--into", image.path)
        ours = case.spec.runtime is RuntimeName.NONE and image.brought_by != BY_MODULES
        evidence = image.how("horovod.version")
        log.refuse(
            "horovod-missing",
            f"{what}, which {image.path.name} does not have",
            evidence,
            *([into] if ours else []),
        )
    elif trainer.world in (ProcessGroup.HOROVOD, ProcessGroup.TENSORFLOW) and launcher in AGENTS:
        why = f"{launcher} prepares its ranks for torch.distributed only"
        log.refuse("agents-world", what, why, *_with_torch(trainer), change(leave_out=["launcher"]))
    elif trainer.world is ProcessGroup.HOROVOD and start.wireup.controller is Controller.NONE:
        why = f"Horovod is not prepared with --controller {Controller.NONE}"
        log.refuse("world-without-controller", what, why, change(leave_out=["controller"]))


def _with_torch(trainer: Trainer) -> list[Remedy]:
    """Return the packaged trainer that does the same with torch.distributed."""
    if trainer.requires is not Framework.PYTORCH and trainer.file is None:
        return []  # a copy has --exchange too
    if trainer.name in WITH_TORCH:
        return [change(trainer=(WITH_TORCH[trainer.name], *trainer.args))]
    return [change(arguments={"--exchange": "ddp"})]
