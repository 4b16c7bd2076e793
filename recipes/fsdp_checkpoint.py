"""What checkpoints of FSDP trainers hold: whole weights in one file, or a part from each rank."""

from __future__ import annotations

import io
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


class State(torch_run.State):
    """Model, optimiser and the random states of all ranks (see saving.State).

    `sharded` ones have a part from each rank, in a folder beside the file.
    """

    def __init__(
        self, run: common.Run, sharded: bool, hvd: Any, model: Any, optimizer: Any, **more: Any
    ) -> None:
        super().__init__(hvd, model, optimizer, **more)
        self.run, self.sharded, self.more = run, sharded, more
        self.model, self.optimizer = model, optimizer
        self.found: dict[str, Any] = {}  # of this checkpoint: weights, or where their parts are
        self.problem = ""

    def gather(self) -> None:
        """Collect the weights, or write this rank's part of them. Collective."""
        super().gather()
        if not self.sharded:
            weights, state = get_state_dict(self.model, self.optimizer, options=WHOLE)
            self.found = {"model": weights, "optimizer": state}
            return
        name = f"step-{self.run.loop.step:08d}.parts"
        folder = (self.run.folder / "checkpoints" / name).absolute()
        if self.found.get("folder") == str(folder) and not self.problem:
            return  # of this very step: an epoch ends where a checkpoint was due
        weights, state = get_state_dict(self.model, self.optimizer)
        self.found, self.problem = {"folder": str(folder)}, ""
        try:
            checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
        except checkpoint.api.CheckpointException as error:
            self.problem = str(next(iter(error.failures.values()))[0])

    def write(self, stream: Any) -> None:
        """Write what was gathered. Rank 0 only. Raises OSError where a part was not written."""
        if self.problem:
            raise OSError(self.problem)
        others = {
            k: v.state_dict() for k, v in self.parts.items() if k not in ("model", "optimizer")
        }
        torch.save({**self.found, **others, "random": self.random}, stream)

    def restore(self, payload: bytes) -> str:
        """Take over what was written, on any number of ranks; return what could not be."""
        found = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        model, optimizer = self.model, self.optimizer
        if "folder" in found:
            # FSDP: a folder may be missing on one node only.
            common.on_all_ranks(self.hvd, lambda: _require(Path(found["folder"])))
            weights, state = get_state_dict(model, optimizer)
            parts = {"model": weights, "optimizer": state}
            checkpoint.load(parts, checkpoint_id=found["folder"])
            set_state_dict(model, optimizer, model_state_dict=parts["model"],
                           optim_state_dict=parts["optimizer"])  # fmt: skip
        else:
            set_state_dict(model, optimizer, model_state_dict=found["model"],
                           optim_state_dict=found["optimizer"], options=WHOLE)  # fmt: skip
        for name, part in self.more.items():
            part.load_state_dict(found[name])
        return self.restore_random(found["random"])


def _require(folder: Path) -> None:
    if not (folder / ".metadata").is_file():
        raise common.UserError(f"the parts of the checkpoint are not there: {folder}")
