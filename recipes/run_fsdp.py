"""PyTorch's FSDP2: a model of which each rank keeps a part, and its checkpoints."""

from __future__ import annotations

import shutil
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from recipes import distributed, run_torch
from recipes.distributed import Ranks, UserError


def shard(args: Namespace, model: nn.Module) -> None:
    """Leave each rank its part of the weights, in place; `model.layers` are its units."""
    # Nothing here changes what the model returns in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    policy = MixedPrecisionPolicy()
    if args.precision == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    # FSDP: one layer at a time is whole on each rank, while it computes; then the rest.
    for layer in model.layers:
        if args.compile:
            layer.compile()
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)


class State:
    """A checkpoint of which each rank writes its part, into a folder that all see."""

    def __init__(self, ranks: Ranks, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.ranks, self.model, self.optimizer = ranks, model, optimizer
        self.signature = run_torch.State(ranks, model, optimizer).signature

    def parts(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def pack(self, folder: Path) -> Any:
        if self.ranks.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
        self.ranks.gather(None)
        try:
            checkpoint.save(self.parts(), checkpoint_id=folder)  # FSDP: all ranks together.
        except checkpoint.api.CheckpointException as error:  # on all ranks
            raise OSError(first_failure(error)) from error
        return folder

    def unpack(self, payload: Any) -> None:
        parts = self.parts()

        def load() -> None:
            try:
                checkpoint.load(parts, checkpoint_id=payload)  # FSDP: for any number of ranks.
            except checkpoint.api.CheckpointException as error:
                raise UserError(f"{payload}: {first_failure(error)}") from error

        distributed.together(self.ranks, load)
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=parts["model"],
            optim_state_dict=parts["optimizer"],
        )


def first_failure(error: Any) -> str:
    rank, (cause, _) = min(error.failures.items(), key=lambda failed: failed[0])
    return f"rank {rank}: {str(cause).splitlines()[0]}"
