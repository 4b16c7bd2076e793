"""Two ranks, other samples and first weights on each, trained through HorovodStrategy.

Prints whether the ranks end with the same weights, `with` and `without` Horovod's optimizer, and
checks the strategy's other collectives. Run with mpirun in the image.
"""

from __future__ import annotations

import logging
import warnings

import horovod.torch as hvd
import lightning
import torch
from lightning.pytorch.strategies import ParallelStrategy
from torch.utils.data import DataLoader, TensorDataset

from recipes import distributed
from recipes.lightning_horovod import HorovodStrategy


class Line(lightning.LightningModule):  # type: ignore[misc]
    """A straight line through points."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(3, 1)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """Return the mean squared error."""
        x, y = batch
        return (self.line(x) - y).square().mean()

    def configure_optimizers(self) -> tuple[list[object], list[object]]:
        """Return an optimiser and a schedule, which halves the rate after each epoch."""
        plain = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [plain], [torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)]


class Without(HorovodStrategy):
    """The same without Horovod's optimizer."""

    def setup_optimizers(self, trainer: lightning.Trainer) -> None:
        """Broadcast only."""
        ParallelStrategy.setup_optimizers(self, trainer)
        hvd.broadcast_parameters(self.lightning_module.state_dict(), root_rank=0)

    def optimizer_step(self, *words: object, **more: object) -> object:
        """Step with this rank's gradients."""
        return ParallelStrategy.optimizer_step(self, *words, **more)


def same_weights(strategy: HorovodStrategy, passes: int = 1) -> bool:
    """Train; return whether all ranks have the same weights then."""
    torch.manual_seed(hvd.rank())
    x = torch.randn(24, 3)
    trainer = lightning.Trainer(
        strategy=strategy, accelerator="cpu", max_epochs=2, accumulate_grad_batches=passes,
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    module = Line()
    trainer.fit(module, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4))
    assert len(trainer.train_dataloader) == 3, "a DataLoader gives each rank half of the samples"
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.025, "the schedule moves the real rate"
    weights = torch.cat([weight.detach().flatten() for weight in module.parameters()])
    found = strategy.all_gather(weights)
    return bool((found == found[0]).all())


def check_collectives(strategy: HorovodStrategy) -> None:
    """Compare what the strategy returns with what two ranks must see."""
    mine = torch.tensor([hvd.rank(), 5.0])
    assert strategy.all_gather(mine).tolist() == [[0, 5], [1, 5]]
    assert strategy.reduce(mine).tolist() == [0.5, 5]
    assert strategy.reduce(mine, reduce_op="sum").tolist() == [1, 10]
    assert strategy.reduce("no tensor") == "no tensor"
    assert strategy.broadcast({"from": hvd.rank()}, src=1) == {"from": 1}
    assert strategy.reduce_boolean_decision(True)
    assert not strategy.reduce_boolean_decision(hvd.rank() == 0)
    assert strategy.reduce_boolean_decision(hvd.rank() == 0, all=False)
    strategy.barrier()


def main() -> None:
    """Train in each way; rank 0 prints one word for each."""
    world = distributed.horovod(hvd)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore")
    cpu = torch.device("cpu")
    found = {"with": same_weights(strategy := HorovodStrategy(cpu, world))}
    check_collectives(strategy)
    found["adding-up"] = same_weights(
        HorovodStrategy(cpu, world, backward_passes_per_step=2), passes=2
    )
    found["adasum"] = same_weights(HorovodStrategy(cpu, world, op=hvd.Adasum))
    found["without"] = same_weights(Without(cpu, world))
    if hvd.rank() == 0:
        print("same:", *(name for name, same in found.items() if same))
    hvd.shutdown()


if __name__ == "__main__":
    main()
