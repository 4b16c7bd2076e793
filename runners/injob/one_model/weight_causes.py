"""Names the cause of different models on the ranks, and what to change in the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...contract.enums import ProcessGroup
from .weights import WeightsVerdict

WRAP_DDP = "model = DistributedDataParallel(model), and call this model"
BROADCAST = (
    "after hvd.init(): hvd.broadcast_parameters(model.state_dict(), root_rank=0), and "
    "hvd.broadcast_optimizer_state(optimizer, root_rank=0)"
)
WRAP_HOROVOD = (
    "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())"
)
AVERAGE = "average gradients or weights of all ranks (all_reduce), or wrap the model in DDP"
KERAS = "optimizer = hvd.DistributedOptimizer(optimizer) before compile(), or "
TAPE = "tape = hvd.DistributedGradientTape(tape)"


def cause_of(verdict: WeightsVerdict, framework: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the likely cause of different weights, and what to do.

    `framework` formed the world; `facts` are one rank's (watch_torch.py, watch_keras.py).
    """
    if verdict.overwritten:
        return "one rank's weights replace all others', and nothing is averaged", AVERAGE
    if facts.get("library") == "keras" and framework != ProcessGroup.TORCH:
        return _keras(verdict, framework, facts)
    if facts.get("ddp_ours"):
        return _ddp(verdict, facts)
    if facts.get("wrapped"):
        if verdict.from_start:
            return "the ranks began with different weights: nothing broadcasts rank 0's", BROADCAST
        return "hvd.DistributedOptimizer does not average every gradient", WRAP_HOROVOD
    if facts.get("wrapped_others"):
        return (
            f"{verdict.parameter} is not in the optimizer that Horovod averages for",
            "pass all parameters to the optimizer that hvd.DistributedOptimizer wraps",
        )
    if facts.get("accelerate"):
        return (
            "the model was not prepared by accelerate",
            "model, optimizer, data = accelerator.prepare(model, optimizer, data)",
        )
    if facts.get("ddp"):
        return f"{verdict.parameter} is not in the model that DDP wraps", WRAP_DDP
    if framework == ProcessGroup.HOROVOD:
        return "the optimizer is not wrapped: no gradients are averaged", WRAP_HOROVOD
    if framework == ProcessGroup.MPI:
        return (
            "mpi4py formed the world, and nothing averages the gradients",
            "torch.distributed.init_process_group() and " + WRAP_DDP,
        )
    if verdict.partly:
        return f"the gradient of {verdict.parameter} is not averaged, as others are", WRAP_DDP
    return "the model is not wrapped: no gradients are averaged", WRAP_DDP


def _ddp(verdict: WeightsVerdict, facts: Mapping[str, Any]) -> tuple[str, str]:
    if facts.get("ddp_ranks") == 1:
        return (
            "DDP has a process group of one rank: it averages with nobody",
            "DistributedDataParallel(model) without process_group",
        )
    if facts.get("no_sync"):
        return (
            "the optimizer steps inside no_sync(), where DDP does not average",
            "leave no_sync() before the last backward() of a step",
        )
    if not facts.get("ddp_used"):
        return "the forward pass goes around DDP, as model.module(x) does", "call the wrapped model"
    if verdict.partly:
        return f"{verdict.parameter} is not in the model that DDP wraps", WRAP_DDP
    if verdict.from_start:
        return (
            "weights were changed on some ranks after DDP had made them equal",
            "load weights before DistributedDataParallel(model), or on every rank",
        )
    if verdict.uneven:
        return (
            "a rank skipped steps that the others made",
            "decide together which batches to skip: all_reduce the decision first",
        )
    return (
        "DDP averages, and a rank's steps are its own: a parameter that DDP does not know (made or "
        "unfrozen later), another learning rate, or optimizer state that other ranks lack",
        "DistributedDataParallel(model) after each change of the model; the same options and "
        "optimizer state on all ranks",
    )


def _keras(verdict: WeightsVerdict, framework: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    if framework == ProcessGroup.TENSORFLOW:
        return (
            "the model was made outside of the strategy",
            "make model and optimizer within strategy.scope()",
        )
    if facts.get("tape"):
        return "the tape is not wrapped: no gradients are averaged", TAPE
    if facts.get("wrapped"):
        return (
            "the ranks began with different weights: nothing broadcasts rank 0's",
            "hvd.callbacks.BroadcastGlobalVariablesCallback(0), or hvd.broadcast_variables()",
        )
    return "neither optimizer nor tape is wrapped: no gradients are averaged", KERAS + TAPE
