"""Collects what all ranks report of their weights, for the verdict; keeps it in `weights.json`.

Where the ranks train different models it says why, and what to change in the trainer: from what a
rank saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import run_files
from . import HOROVOD, MPI, TENSORFLOW
from .weights import (
    OPEN,
    SEVERITY,
    OptimizerReport,
    WeightResult,
    WeightSums,
    WeightsVerdict,
    judge,
    not_checked,
)

VERSION = 1
FILE = "weights.json"
WRAP_DDP = "model = DistributedDataParallel(model), and call this model"
BROADCAST = (
    "after hvd.init(): hvd.broadcast_parameters(model.state_dict(), root_rank=0), and "
    "hvd.broadcast_optimizer_state(optimizer, root_rank=0)"
)
WRAP_HOROVOD = (
    "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())"
)
KERAS = "optimizer = hvd.DistributedOptimizer(optimizer) before compile(), or "
TAPE = "tape = hvd.DistributedGradientTape(tape)"


class WeightReports:
    """Reports by the optimizer, and by rank.

    Of each rank one process after another may train, where a launcher has started it again: only
    first ones are compared with first ones, and so on.
    """

    def __init__(self) -> None:
        self.reports: dict[tuple[int, str], dict[int, OptimizerReport]] = {}
        self.processes: dict[int, list[int]] = {}
        self.size = 1

    def hear(self, fields: Mapping[str, Any]) -> None:
        """Add a report; it has the fields that are new since the last one."""
        self.size = max(self.size, int(fields["size"]))
        rank, process = int(fields["rank"]), int(fields["process"])
        processes = self.processes.setdefault(rank, [])
        if process not in processes:
            processes.append(process)
        start = processes.index(process)
        ranks = self.reports.setdefault((start, str(fields["optimizer"])), {})
        report = ranks.setdefault(rank, OptimizerReport(rank))
        traces = fields.get("traces", {})
        report.traces.update({int(step): int(sum_) for step, sum_ in traces.items()})
        if "checksums" in fields:
            report.checks[int(fields["step"])] = WeightSums(fields["checksums"], fields["values"])
        for name in ("shapes", "names", "sharded", "may_differ", "processor", "losses", "facts"):
            if name in fields:
                setattr(report, name, fields[name])
        if "steps" in fields:
            report.steps, report.changed = int(fields["steps"]), bool(fields["changed"])
        group = tuple(fields.get("group", report.group))
        report.group = group if 1 < len(group) < self.size else ()

    def verdict(self, over: bool) -> tuple[WeightsVerdict, Mapping[str, Any]]:
        """Return the worst verdict of all optimizers, and one rank's facts about it."""
        verdicts = [
            (judge(list(ranks.values()), self.size, over), next(iter(ranks.values())).facts)
            for _, ranks in sorted(self.reports.items())
        ]
        if not verdicts:
            reason = "no optimizer of PyTorch or Keras made a step"
            return (not_checked(reason) if over else OPEN), {}
        return max(verdicts, key=lambda one: SEVERITY.index(one[0].result))


def line(verdict: WeightsVerdict) -> str:
    """Return the line for the end of the log."""
    if verdict.result is WeightResult.EQUAL:
        return f"runner: weights equal on all ranks ({verdict.text})"
    if verdict.result is WeightResult.COPIES:
        return (
            f"runner: weights equal on all ranks\nrunner: warning: {verdict.text}: each rank "
            "should read its own part of the data (DistributedSampler, shard)"
        )
    return f"runner: weights not checked: {verdict.text}"


def keep(verdict: WeightsVerdict, run_dir: str) -> None:
    """Write the verdict into the run's folder, and into the trainer's result, if it wrote one."""
    value = {"version": VERSION, "result": verdict.result.value, "text": verdict.text}
    if verdict.parameter:
        value["parameter"] = verdict.parameter
    run_files.keep(run_dir, FILE, value, in_result="weights")


def cause_of(verdict: WeightsVerdict, framework: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the likely cause of different weights, and what to do.

    `framework` formed the world; `facts` are one rank's (watch_torch.py, watch_keras.py).
    """
    if facts.get("library") == "keras":
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
    if framework == HOROVOD:
        return "the optimizer is not wrapped: no gradients are averaged", WRAP_HOROVOD
    if framework == MPI:
        return (
            "mpi4py formed the world, and nothing averages the gradients",
            "torch.distributed.init_process_group() and " + WRAP_DDP,
        )
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
    return "not every gradient is averaged by DDP", WRAP_DDP


def _keras(verdict: WeightsVerdict, framework: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    if framework == TENSORFLOW:
        return (
            "the model was made outside of the strategy",
            "make model and optimizer within strategy.scope()",
        )
    if facts.get("wrapped"):
        return (
            "the ranks began with different weights: nothing broadcasts rank 0's",
            "hvd.callbacks.BroadcastGlobalVariablesCallback(0), or hvd.broadcast_variables()",
        )
    return "neither optimizer nor tape is wrapped: no gradients are averaged", KERAS + TAPE
