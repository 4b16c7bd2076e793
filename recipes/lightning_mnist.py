"""Train a small convolutional network on handwritten digits, with Lightning 2 and Horovod or DDP.

Lightning has had no strategy for Horovod since 2.0: recipes/lightning_horovod.py is one. With
`--exchange ddp` it is Lightning's own DDP, on ranks that are there already.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 lightning_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.lightning_mnist
    python -m recipes.lightning_mnist

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Horovod:` and `# DDP:`.
"""

from __future__ import annotations

import logging
import warnings
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.nn import functional

from recipes import digits, distributed, options, run_torch
from recipes.distributed import Ranks, UserError
from recipes.lightning_horovod import Environment, HorovodStrategy
from recipes.run import Run

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.torch as hvd


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("lightning_mnist", "Train a small network on digits, with Lightning.")
    add = parser.add_argument
    add("--exchange", choices=("horovod", "ddp"), default="horovod", help="averages the gradients")
    add("--epochs", type=options.at_least(1), default=16, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=32, help="samples of a rank and pass")
    add("--base-lr", type=options.at_least(0.0), default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=3, help="epochs to N times it")
    add("--dropout", type=options.at_least(0.0, below=1), default=0.5, help="dropout probability")
    parser.add_accumulation()
    parser.add_horovod()
    return parser


class BatchIndices:
    """What Lightning takes for a DataLoader: the sample indices of each backward pass.

    Those of the steps that are left of this epoch.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def __len__(self) -> int:
        run = self.run
        left = min(run.shards.steps(run.taken), run.last_step - run.step)
        return int(left * run.args.batches_per_allreduce)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.run.batches():
            yield from batch.parts


class Module(lightning.LightningModule):  # type: ignore[misc]  # not installed where checked
    """The model and its training, in the order in which Lightning calls the methods."""

    def __init__(self, run: Run, data: digits.Digits) -> None:
        super().__init__()
        self.args, self.run, self.world = run.args, run, run.ranks
        self.network = nn.Sequential(
            nn.Unflatten(1, (1, data.height)),  # one channel
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(run.args.dropout),
            nn.Linear(64 * (data.height // 2) * (data.width // 2), data.classes),
        )
        arrays = data.x_train, data.y_train, data.x_test, data.y_test
        self.x, self.y, self.x_test, self.y_test = (
            torch.from_numpy(array).to(run.device) for array in arrays
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.args.base_lr, momentum=0.9)

    def on_fit_start(self) -> None:
        """Continue from a checkpoint, now that the strategy has set up model and optimizer."""
        # Horovod: from here on another seed on each rank, for dropout that differs.
        torch.manual_seed(self.args.seed + 1 + self.world.rank)
        # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
        state = run_torch.State(self.world, self.network, self.trainer.optimizers[0])
        self.run.begin(len(self.y), state)

    def train_dataloader(self) -> BatchIndices:
        return BatchIndices(self.run)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, number: int) -> Any:
        return batch  # indices: the samples are on the device

    def on_train_start(self) -> None:
        self.run.agreement.listen()  # on SIGTERM Lightning would end training without saving

    def on_train_epoch_start(self) -> None:
        self.run.begin_epoch()

    def on_train_batch_start(self, indices: Any, number: int) -> None:
        if number % self.args.batches_per_allreduce == 0:
            self.losses = torch.zeros((), device=self.run.device)
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            rate = distributed.learning_rate(self.args, self.world.size, self.run.epochs_done)
            run_torch.set_rate(self.run, self.trainer.optimizers[0], rate)

    def training_step(self, indices: Any, number: int) -> torch.Tensor:
        """Return the loss of one backward pass; all ranks' mean is that of their samples."""
        # Horovod: no samples may be left here and some on other ranks, which wait for this one.
        logits = self.network(self.x[indices])
        loss = functional.cross_entropy(logits, self.y[indices], reduction="sum")
        self.losses += loss.detach()
        batch, passes = self.run.batch, self.args.batches_per_allreduce
        weight = 1 / max(1, batch.own) if self.args.adasum else batch.weight
        return loss * (weight * passes)  # Lightning divides by the number of passes

    def on_train_batch_end(self, outputs: Any, indices: Any, number: int) -> None:
        if (number + 1) % self.args.batches_per_allreduce == 0:
            self.run.step_done(self.losses)  # Horovod: the strategy has exchanged the gradients.

    def on_train_epoch_end(self) -> None:
        """Test and record; tell Lightning when it was the last epoch."""
        test = self.run.test_parts(len(self.y_test), run_torch.TEST_BATCH)
        self.run.epoch_done(lambda: run_torch.evaluate(self.run, self, test, self.predict))
        self.trainer.should_stop = self.run.step >= self.run.last_step

    def predict(self, indices: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.network(self.x_test[indices]), self.y_test[indices]


def strategy(args: Namespace, world: Ranks, device: torch.device) -> Any:
    if EXCHANGE == "ddp":
        devices = [device] * world.local_size  # DDP: Lightning's own, for the ranks there are.
        return DDPStrategy(parallel_devices=devices, cluster_environment=Environment(world))
    return HorovodStrategy(  # Horovod: averages the gradients in each step.
        device,
        world,
        op=hvd.Adasum if args.adasum else hvd.Average,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=args.batches_per_allreduce,
    )


def make_trainer(args: Namespace, world: Ranks, device: torch.device) -> lightning.Trainer:
    """Return Lightning's trainer without what the run does: stopping, logs, checkpoints."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")  # advice on loaders and loggers
    return lightning.Trainer(
        strategy=strategy(args, world, device),
        accelerator="gpu" if device.type == "cuda" else "cpu",
        precision="bf16-mixed" if args.precision == "bf16" else "32-true",
        accumulate_grad_batches=args.batches_per_allreduce,
        max_epochs=-1,  # the module says when to stop
        reload_dataloaders_every_n_epochs=1,  # the first epoch after a restart is shorter
        use_distributed_sampler=False,  # the run gives each rank its samples
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def read_options(world: Ranks) -> Namespace:
    args = distributed.check(parser().parse_args(), world)
    if args.exchange == "ddp" and args.fp16_allreduce:
        raise UserError("--fp16-allreduce is Horovod's here: not with --exchange ddp")
    return args


def main() -> None:
    # Horovod: find the other ranks.
    world = distributed.horovod(hvd) if EXCHANGE == "horovod" else distributed.torch_ranks()
    args = distributed.together(world, lambda: read_options(world))
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = distributed.together(world, lambda: run_torch.pick_device(args, world))
    data = distributed.together(world, lambda: digits.load(args.data))
    framework = run_torch.framework(device, world, lightning=lightning.__version__)
    run = Run(args, world, "lightning_mnist", framework, data.describe())
    torch.manual_seed(args.seed)
    module = Module(run, data)
    trainer = make_trainer(args, world, device)
    trainer.fit(module)
    run.finish(run_torch.arrays(module.parameters()), exchange=EXCHANGE)


if __name__ == "__main__":
    main()
