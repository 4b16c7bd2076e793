"""A strategy for Lightning 2, which has had none for Horovod since 2.0, and a launcher's ranks.

Nothing of the trainer's is in here: `HorovodStrategy(device, distributed.horovod(hvd))` is for any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning
import torch
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.strategies import ParallelStrategy
from torch.distributed import ReduceOp

from recipes.distributed import Ranks


class Environment(LightningEnvironment):  # type: ignore[misc]  # not installed where checked
    """The ranks that a launcher has started. Lightning starts none."""

    creates_processes_externally = True

    def __init__(self, world: Ranks) -> None:
        super().__init__()
        self.world = world

    def world_size(self) -> int:
        return self.world.size

    def global_rank(self) -> int:
        return self.world.rank

    def local_rank(self) -> int:
        return self.world.local_rank

    def set_world_size(self, size: int) -> None:
        """Do nothing: it is known."""

    def set_global_rank(self, rank: int) -> None:
        """Do nothing: it is known."""


class HorovodStrategy(ParallelStrategy):  # type: ignore[misc]  # as above
    """Horovod's optimizer around each of a module's, and its collectives for Lightning's own.

    `world` is that of `distributed.horovod`, `settings` are those of `hvd.DistributedOptimizer`. To
    accumulate over k batches give `backward_passes_per_step=k` here and `accumulate_grad_batches=k`
    to the Trainer.
    """

    strategy_name = "horovod"
    is_distributed = True  # else Lightning would give all ranks the same samples
    optimizers: list[torch.optim.Optimizer]

    def __init__(self, device: torch.device, world: Ranks, **settings: Any) -> None:
        devices = [device] * world.local_size  # Lightning takes that of the local rank
        super().__init__(parallel_devices=devices, cluster_environment=Environment(world))
        self.hvd, self.settings = world.hvd, settings

    @property
    def root_device(self) -> torch.device:
        return self.parallel_devices[self.local_rank]

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """Which share of the samples a DataLoader gives to this rank."""
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    def set_world_ranks(self) -> None:
        rank_zero_only.rank = self.global_rank

    def model_to_device(self) -> None:
        self.model.to(self.root_device)

    def setup_optimizers(self, trainer: lightning.Trainer) -> None:
        """Make the module's optimizers, and let Horovod reduce their gradients."""
        super().setup_optimizers(trainer)
        module = self.lightning_module
        # Horovod: all ranks start from the weights of rank 0.
        self.hvd.broadcast_parameters(module.state_dict(), root_rank=0)
        plain, self.optimizers = self.optimizers, []
        for optimizer in plain:
            weights = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
            named = [pair for pair in module.named_parameters() if id(pair[1]) in weights]
            # Horovod: averages gradients over all ranks, under the weights' names.
            wrapped = self.hvd.DistributedOptimizer(
                optimizer, named_parameters=named, **self.settings
            )
            self.optimizers.append(wrapped)
            # Horovod: without one it would take a step to make it.
            if wrapped.state_dict()["state"]:
                self.hvd.broadcast_optimizer_state(wrapped, root_rank=0)
        for config in self.lr_scheduler_configs:
            config.scheduler.optimizer = self.optimizers[plain.index(config.scheduler.optimizer)]

    def optimizer_step(
        self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **words: Any
    ) -> Any:
        """Step with the mean gradients of all ranks.

        Lightning computes gradients in the closure, which torch calls within the step: later than
        Horovod's optimizer waits for the exchange. So the closure waits.
        """
        if not hasattr(optimizer, "op"):  # Horovod: Adasum's waits in step, after the closure.
            return super().optimizer_step(optimizer, closure, model, **words)

        def closure_then_exchange() -> Any:
            loss = closure()
            optimizer.synchronize()  # Horovod: from here on gradients are means over all ranks.
            return loss

        with optimizer.skip_synchronize():  # Horovod: done already, see above.
            return super().optimizer_step(optimizer, closure_then_exchange, model, **words)

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Return the mean or the sum of all ranks' tensors."""
        if not isinstance(tensor, torch.Tensor):
            return tensor
        # Horovod: every rank calls this, in the same order.
        return self.hvd.allreduce(
            tensor, op=self.hvd.Sum if reduce_op in ("sum", ReduceOp.SUM) else self.hvd.Average
        )

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return all ranks' tensors of one shape, stacked by rank: (ranks, ...)."""
        with torch.set_grad_enabled(sync_grads and torch.is_grad_enabled()):
            # Horovod: joins along the first dimension, so one is added.
            return self.hvd.allgather(tensor.unsqueeze(0))

    def barrier(self, name: str | None = None) -> None:
        self.hvd.barrier()  # Horovod: nobody goes on before the last is here.

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return self.hvd.broadcast_object(obj, root_rank=src)  # Horovod: pickled.
