"""A strategy for Lightning 2 that trains with Horovod, and its DDP for ranks that are there.

Lightning has had no strategy for Horovod since 2.0. Copy this file beside your own program:

    hvd.init()
    strategy = lightning_horovod.HorovodStrategy(device)
    lightning.Trainer(strategy=strategy, ...).fit(module)

The processes are there before Lightning is: mpirun, srun or horovodrun has started them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import horovod.torch as hvd
import torch
from lightning.fabric.plugins.environments import ClusterEnvironment
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, ParallelStrategy
from torch.distributed import ReduceOp

# Horovod: Lightning's names for what is to be done with the ranks' values, and Horovod's.
OPERATIONS = {
    "mean": hvd.Average,
    "avg": hvd.Average,
    "sum": hvd.Sum,
    ReduceOp.AVG: hvd.Average,
    ReduceOp.SUM: hvd.Sum,
}


class Ranks(ClusterEnvironment):  # type: ignore[misc]  # not installed where checked
    """The ranks as `world` numbers them. Lightning starts none, and its setters do nothing."""

    creates_processes_externally = True
    # Asked for only to form torch.distributed's group; `process_group.join` has done that.
    main_address, main_port = "", 0

    def __init__(self, world: Any) -> None:
        # Horovod: the numbers among all ranks, among those of this host, and of this host.
        self.numbers = world.rank(), world.size(), world.local_rank(), world.cross_rank()

    @staticmethod
    def detect() -> bool:
        """Return whether there are such ranks."""
        return bool(hvd.is_initialized())  # Horovod: after hvd.init().

    def global_rank(self) -> int:
        """Return this rank's number among all."""
        return int(self.numbers[0])

    def world_size(self) -> int:
        """Return the number of ranks."""
        return int(self.numbers[1])

    def local_rank(self) -> int:
        """Return this rank's number on its host."""
        return int(self.numbers[2])

    def node_rank(self) -> int:
        """Return the number of this rank's host."""
        return int(self.numbers[3])

    def set_world_size(self, size: int) -> None:
        """Do nothing: it is known."""

    def set_global_rank(self, rank: int) -> None:
        """Do nothing: it is known."""


def ddp(device: torch.device, world: Any) -> DDPStrategy:
    """Return Lightning's own DDP for the ranks of a `process_group.World`."""
    devices = [device] * world.local_size()  # DDP: Lightning takes that of the local rank.
    return DDPStrategy(parallel_devices=devices, cluster_environment=Ranks(world))


class HorovodStrategy(ParallelStrategy):  # type: ignore[misc]  # as above
    """Horovod's optimizer around each of a module's, and its collectives for Lightning's own.

    `options` are those of `hvd.DistributedOptimizer`. To accumulate over k batches give
    `backward_passes_per_step=k` here and `accumulate_grad_batches=k` to the Trainer.
    """

    strategy_name = "horovod"
    is_distributed = True  # else Lightning would give all ranks the same samples

    optimizers: list[torch.optim.Optimizer]

    def __init__(self, device: torch.device, **options: Any) -> None:
        devices = [device] * hvd.local_size()  # Horovod: one for each rank of this host.
        super().__init__(parallel_devices=devices, cluster_environment=Ranks(hvd))
        self.options = options

    @property
    def root_device(self) -> torch.device:
        """This rank's device."""
        return self.parallel_devices[self.local_rank]

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """Which share of the samples a DataLoader gives to this rank."""
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    def set_world_ranks(self) -> None:
        """Let only rank 0 print and write what Lightning's users mark so."""
        rank_zero_only.rank = self.global_rank

    def model_to_device(self) -> None:
        """Move the module to this rank's device."""
        self.model.to(self.root_device)

    def setup_optimizers(self, trainer: Trainer) -> None:
        """Make the module's optimizers, and let Horovod reduce their gradients."""
        super().setup_optimizers(trainer)
        # Horovod: all ranks start from the weights of rank 0.
        hvd.broadcast_parameters(self.lightning_module.state_dict(), root_rank=0)
        plain = self.optimizers
        self.optimizers = [distributed(each, self.lightning_module, self.options) for each in plain]
        for config in self.lr_scheduler_configs:
            config.scheduler.optimizer = self.optimizers[plain.index(config.scheduler.optimizer)]
        for optimizer in self.optimizers:
            # Horovod: and from its optimizer state. Without one it would take a step to make it,
            # which changes the weights where they decay.
            if optimizer.state_dict()["state"]:
                hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    def optimizer_step(
        self,
        optimizer: torch.optim.Optimizer,
        closure: Callable[[], Any],
        model: LightningModule | None = None,
        **words: Any,
    ) -> Any:
        """Step with the mean gradients of all ranks.

        Lightning computes the gradients in the closure, which torch calls within the step: later
        than Horovod's optimizer waits for the exchange. So the waiting is done in the closure.
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
        """Return the mean or the sum of all ranks' tensors; what is no tensor stays as it is."""
        if not isinstance(tensor, torch.Tensor):
            return tensor
        # Horovod: every rank calls this, in the same order.
        return hvd.allreduce(tensor, op=OPERATIONS[reduce_op])

    def all_gather(
        self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False
    ) -> torch.Tensor:
        """Return all ranks' tensors of one shape, stacked by rank: (ranks, ...)."""
        with torch.set_grad_enabled(sync_grads and torch.is_grad_enabled()):
            # Horovod: joins along the first dimension, so one is added.
            return hvd.allgather(tensor.unsqueeze(0))

    def barrier(self, name: str | None = None) -> None:
        """Wait for all ranks."""
        hvd.barrier()  # Horovod: nobody goes on before the last is here.

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """Return rank `src`'s object."""
        return hvd.broadcast_object(obj, root_rank=src)  # Horovod: pickled.


def distributed(
    optimizer: torch.optim.Optimizer, module: torch.nn.Module, options: dict[str, Any]
) -> torch.optim.Optimizer:
    """Return Horovod's optimizer around another, for those weights of a module that it has."""
    own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    named = [(name, weight) for name, weight in module.named_parameters() if id(weight) in own]
    # Horovod: averages gradients over all ranks, under the weights' names.
    return hvd.DistributedOptimizer(optimizer, named_parameters=named, **options)
