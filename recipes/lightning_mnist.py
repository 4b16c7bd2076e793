"""Train a small convolutional network on handwritten digits, with Lightning 2 and Horovod.

Lightning has no strategy for Horovod any more; that of recipes/lightning_horovod.py is ours.
`--strategy ddp` takes Lightning's DDP instead, on the same ranks, for comparison.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 lightning_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.lightning_mnist
    python -m recipes.lightning_mnist

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import horovod.torch as hvd
import lightning
import torch
from torch.nn import functional

from recipes import common, lightning_horovod, mnist, options, process_group, torch_run
from recipes.torch_mnist import MOMENTUM, network

HOROVODS = ("adasum", "fp16_allreduce", "gradient_predivide_factor", "timeline")
NOT_WITH_DDP = dict.fromkeys(HOROVODS, "it is Horovod's, not of --strategy ddp")


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    not_here = {"workers": "the data is in memory"}
    about = "Train a small network on digits, with Lightning."
    parser = options.Parser("lightning_mnist", about, not_here)
    options.add_common(parser, epochs=16, batch_size=32, base_lr=0.05, warmup=3)
    add = parser.add_argument
    add("--dropout", type=options.fraction, default=0.5, help="share of zeros")
    add("--strategy", choices=("horovod", "ddp"), default="horovod", help="who exchanges gradients")
    return parser


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line; raise `UserError` for what is wrong in it."""
    args = parser().settings(argv)
    if args.strategy == "ddp":
        parser().refuse(args, NOT_WITH_DDP)
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    options.allow_timeline(argv)
    world = find_ranks(argv)
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(world, lambda: settings(argv))
    # Horovod: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(world, lambda: mnist.load(args.data))
    versions = {"lightning": lightning.__version__}
    run = torch_run.Run(
        args, world, "lightning_mnist", device, about=data.describe(), versions=versions
    )
    torch.manual_seed(args.seed)
    module = Module(run, data)
    trainer(args, strategy(args, world, device)).fit(module)
    run.finish(module, exchange=args.strategy)
    world.shutdown()  # Horovod: leave together,
    common.leave(0)  # and at once: Gloo's threads may abort Python's way out.


def find_ranks(argv: Sequence[str] | None) -> Any:
    """Return the world of the strategy that the command line asks for."""
    words = " ".join(sys.argv[1:] if argv is None else argv)
    if re.search(r"--strategy[= ]ddp\b", words):
        return process_group.join()  # DDP: find the other ranks.
    hvd.init()  # Horovod: find the other ranks.
    return hvd


def strategy(args: Namespace, world: Any, device: torch.device) -> Any:
    if args.strategy == "ddp":
        return lightning_horovod.ddp(device, world)
    # Horovod: averages the gradients in each step.
    return lightning_horovod.HorovodStrategy(device, **torch_run.optimizer_options(args, hvd))


def trainer(args: Namespace, strategy: Any) -> lightning.Trainer:
    """Build Lightning's trainer, without what our `Run` does: bars, logs, checkpoints."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")  # advice on loaders and loggers
    return lightning.Trainer(
        strategy=strategy,
        accelerator="auto" if args.device == "auto" else args.device,
        precision="bf16-mixed" if args.bf16 else "16-mixed" if args.amp else "32-true",
        accumulate_grad_batches=args.batches_per_allreduce,
        max_epochs=-1,  # the module says when to stop
        reload_dataloaders_every_n_epochs=1,  # the first epoch after a restart is shorter
        use_distributed_sampler=False,  # common.Shards deals the samples
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


class Parts:
    """What Lightning takes for a DataLoader: each backward pass of an epoch's steps left."""

    def __init__(self, run: torch_run.Run) -> None:
        self.run = run

    def __len__(self) -> int:
        return int(self.run.loop.steps_of_epoch() * self.run.args.batches_per_allreduce)

    def __iter__(self) -> Iterator[common.Indices]:
        for batch in self.run.batches():
            yield from batch.parts


class Module(lightning.LightningModule):  # type: ignore[misc]  # not installed where checked
    """The model and its training, in the order in which Lightning calls the methods."""

    def __init__(self, run: torch_run.Run, data: mnist.Digits) -> None:
        super().__init__()
        self.args, self.run = run.args, run
        self.network = network(run.args, data)
        self.x, self.y, self.x_test, self.y_test = (
            torch.from_numpy(each).to(run.device)
            for each in (data.x_train, data.y_train, data.x_test, data.y_test)
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser, which the strategy wraps."""
        return torch.optim.SGD(self.parameters(), lr=self.args.base_lr, momentum=MOMENTUM)

    def on_fit_start(self) -> None:
        """Go on from a checkpoint, now that the strategy has set up model and optimiser."""
        # Horovod: each rank learns from its own share, by its number among all ranks.
        shards = self.run.deal(len(self.y))
        # Horovod: from here on another seed on each rank, for dropout that differs.
        torch.manual_seed(self.args.seed + 1 + self.run.hvd.rank())
        scaled = {"scaler": self.trainer.precision_plugin.scaler} if self.args.amp else {}
        # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
        self.run.resume(self.network, self.trainer.optimizers[0], shards, parts=scaled)
        self.epochs = self.run.epochs()
        next(self.epochs, None)

    def train_dataloader(self) -> Parts:
        """Return the steps of this epoch."""
        return Parts(self.run)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, number: int) -> Any:
        """Return the indices as they are: the samples are on the device already."""
        return batch

    def on_train_start(self) -> None:
        """Take the signals back: on SIGTERM Lightning would end training without saving."""
        self.run.stop.listen()

    def on_train_epoch_start(self) -> None:
        self.train()

    def on_train_batch_start(self, part: common.Indices, number: int) -> None:
        """Set the learning rate, at the first part of a step."""
        if number % self.args.batches_per_allreduce == 0:
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            rate = common.learning_rate(self.args, self.run.hvd.size(), self.run.epochs_done)
            self.run.set_rate(self.trainer.optimizers[0], rate)

    def training_step(self, part: common.Indices, number: int) -> torch.Tensor:
        """Return the loss of one part, of which all ranks' mean is that of their samples."""
        # Horovod: a part may be empty here and not on other ranks, which wait for this one.
        guesses = self.network(self.x[part])
        loss = functional.cross_entropy(guesses, self.y[part], reduction="sum")
        # Lightning divides by the number of parts, which the weight has done.
        return self.run.weighted(loss) * self.args.batches_per_allreduce

    def on_train_batch_end(self, outputs: Any, part: common.Indices, number: int) -> None:
        """Count a step at its last part, and save if it is time to."""
        if (number + 1) % self.args.batches_per_allreduce == 0:
            self.run.step(None)  # Horovod: the strategy has exchanged the gradients.

    def on_train_epoch_end(self) -> None:
        """Test and record; tell Lightning when it was the last epoch."""
        self.run.epoch_done(lambda: self.run.evaluate(self, len(self.y_test), self.guess))
        self.trainer.should_stop = not self.run.loop.more
        next(self.epochs, None)  # before Lightning asks for the steps of the next one

    def guess(self, part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the guesses for a part of the test samples, and the truth."""
        return self.network(self.x_test[part]), self.y_test[part]


if __name__ == "__main__":
    main()
