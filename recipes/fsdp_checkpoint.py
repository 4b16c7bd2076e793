"""What checkpoints of FSDP trainers hold: whole weights in one file, or a part from each rank."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from recipes import common, torch_run

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
REST = "rest.pt"  # beside the parts: what no rank has a part of


class State(torch_run.State):
    """Model, optimiser and the random states of all ranks (see saving.State).

    A `sharded` checkpoint is a folder with a part from each rank, in torch.distributed.checkpoint's
    form; all ranks must see it.
    """

    def __init__(
        self, run: common.Run, sharded: bool, hvd: Any, model: Any, optimizer: Any, **more: Any
    ) -> None:
        super().__init__(hvd, model, optimizer, **more)
        self.sharded, self.more, self.optimizer = sharded, more, optimizer
        self.parts_of_ranks = run.checkpoints.folder / ".parts"
        self.weights: dict[str, Any] = {}
        self.sums: dict[str, common.Sum] = {}
        self.problem = ""

    def gather(self) -> None:
        """Collect the weights, or write this rank's part of them. Collective."""
        super().gather()
        if self.sharded:
            self._write_part()
        else:
            self.weights = self._weights(WHOLE)

    def _weights(self, options: StateDictOptions | None = None) -> dict[str, Any]:
        weights, state = get_state_dict(self.model, self.optimizer, options=options)
        return {"model": weights, "optimizer": state}

    def _write_part(self) -> None:
        folder, rank = self.parts_of_ranks, self.hvd.rank()
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # what a killed run has left
        mine: dict[str, common.Sum] = {}
        self.problem = ""
        try:
            # FSDP: an error on any rank is raised on all.
            checkpoint.save(self._weights(), checkpoint_id=folder)
            names = [f"__{rank}_*", ".metadata"] if rank == 0 else [f"__{rank}_*"]
            files = [file for name in names for file in folder.glob(name)]
            mine = {file.name: common.Sum.of_file(file) for file in files}
        except checkpoint.api.CheckpointException as error:
            self.problem = _first(error)
        # FSDP: rank 0 tells what all have written.
        everyone = self.hvd.allgather_object(mine, name="sums")
        self.sums = {name: each for sums in everyone for name, each in sums.items()}

    def write(self, path: Path) -> common.Sum:
        """Write what was gathered. Rank 0 only. Raises OSError where a part was not written."""
        rest = {name: part.state_dict() for name, part in self.more.items()}
        rest["random"] = self.random
        if not self.sharded:
            whole = {**self.weights, **rest}
            return common.write_atomically(path, lambda stream: torch.save(whole, stream))
        folder = self.parts_of_ranks
        if self.problem:
            shutil.rmtree(folder, ignore_errors=True)
            raise OSError(self.problem)
        sum_of_rest = common.write_atomically(
            folder / REST, lambda stream: torch.save(rest, stream)
        )
        folder.rename(path)
        return common.Sum.of_folder({**self.sums, REST: sum_of_rest})

    def restore(self, payload: Any) -> str:
        """Take over what was written, on any number of ranks; return what could not be."""
        if isinstance(payload, Path):
            weights = self._weights()
            # FSDP: a folder may be missing on one node only.
            found = common.on_all_ranks(self.hvd, lambda: _load(payload, weights))
            options = None
        else:
            found = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
            weights, options = found, WHOLE
        set_state_dict(
            self.model, self.optimizer, model_state_dict=weights["model"],
            optim_state_dict=weights["optimizer"], options=options,
        )  # fmt: skip
        for name, part in self.more.items():
            part.load_state_dict(found[name])
        return self.restore_random(found["random"])


def _load(path: Path, weights: dict[str, Any]) -> dict[str, Any]:
    """Fill `weights` with this rank's parts; return the rest."""
    try:
        checkpoint.load(weights, checkpoint_id=path)
        rest: dict[str, Any] = torch.load(path / REST, map_location="cpu", weights_only=True)
    except (checkpoint.api.CheckpointException, OSError) as error:
        why = _first(error) if isinstance(error, checkpoint.api.CheckpointException) else error
        raise common.UserError(f"not all ranks can read {path}: {why}") from error
    return rest


def _first(error: Any) -> str:
    rank, (cause, _) = min(error.failures.items(), key=lambda each: each[0])
    return f"rank {rank}: {str(cause).splitlines()[0]}"
