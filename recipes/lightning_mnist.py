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
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import horovod
import horovod.torch as hvd
import lightning
import torch
from torch import nn
from torch.nn import functional

from recipes import common, lightning_horovod, mnist, process_group, torch_common

MOMENTUM = 0.9
EVALUATION_BATCH = 1000  # samples at once: bounds the memory, changes no result
NOT_HERE = {"workers": "the data is in memory"}
HOROVODS = ("adasum", "fp16_allreduce", "gradient_predivide_factor", "timeline")
NOT_WITH_DDP = dict.fromkeys(HOROVODS, "it is Horovod's, not of --strategy ddp")


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("lightning_mnist", "Train a small network on digits, with Lightning.")
    common.add_common(parser, epochs=16, batch_size=32, base_lr=0.05, warmup=3)
    add = parser.add_argument
    add("--dropout", type=common.fraction, default=0.5, help="share of zeros")
    add("--strategy", choices=("horovod", "ddp"), default="horovod", help="who exchanges gradients")
    args = common.parse(parser, argv, NOT_HERE)
    return common.parse(parser, argv, NOT_WITH_DDP) if args.strategy == "ddp" else args


def network(args: Namespace, data: mnist.Digits) -> nn.Module:
    """Build the model, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
    return nn.Sequential(
        nn.Unflatten(1, (1, data.height)),  # one channel
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(args.dropout),
        nn.Linear(64 * (data.height // 2) * (data.width // 2), data.classes),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    common.before_init(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: an error on any rank stops all of them, with one message.
    args = common.together(hvd, lambda: settings(argv))
    device = common.together(hvd, lambda: torch_common.pick_device(args, hvd))
    data = common.together(hvd, lambda: mnist.load(args.data))
    strategy, world = strategies(args, device)
    versions = {"torch": torch.__version__, "horovod": horovod.__version__}
    versions["lightning"] = lightning.__version__
    run = common.Run(args, world, "lightning_mnist", device=str(device), versions=versions)
    run.introduce(data.describe())

    torch.manual_seed(args.seed)
    module = Module(args, run, world, data, device)
    with torch_common.profiled(args, run) as profiler:
        module.profiler = profiler
        trainer(args, strategy).fit(module)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.detach().cpu().numpy() for weight in module.parameters())
    common.assert_identical(world.allgather_object(digest, name="digest"))
    run.finish(exchange=args.strategy)
    world.shutdown()  # Horovod: leave together,
    common.leave(0)  # and at once: Gloo's threads may abort Python's way out.


def strategies(args: Namespace, device: torch.device) -> tuple[Any, Any]:
    """Return Lightning's strategy, and who exchanges what is not gradients."""
    if args.strategy == "horovod":
        # Horovod: averages the gradients in each step.
        options = torch_common.exchange(args, hvd)
        return lightning_horovod.HorovodStrategy(device, **options), hvd
    # Horovod: the ranks form DDP's group with its help, and need it no longer.
    common.together(hvd, lambda: process_group.join(hvd, device))
    made = lightning_horovod.ddp(device), process_group.World(hvd)
    hvd.shutdown()
    return made


def trainer(args: Namespace, strategy: Any) -> lightning.Trainer:
    """Build Lightning's trainer, without what `common.Run` does: bars, logs, checkpoints."""
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

    def __init__(self, course: Any, passes: int) -> None:
        self.course, self.passes = course, passes

    def __len__(self) -> int:
        """Return the number of backward passes."""
        course = self.course
        in_epoch = -(-(course.shards.whole - course.taken) // course.shards.per_step)
        return int(min(in_epoch, course.last_step - course.step) * self.passes)

    def __iter__(self) -> Iterator[tuple[common.Batch, common.Indices]]:
        for batch in self.course.batches():
            for part in batch.parts:
                yield batch, part


class Module(lightning.LightningModule):  # type: ignore[misc]  # not installed where checked
    """The model and its training, in the order in which Lightning calls the methods."""

    def __init__(
        self, args: Namespace, run: common.Run, world: Any, data: mnist.Digits, device: torch.device
    ) -> None:
        super().__init__()
        self.network = network(args, data)
        self.args, self.run, self.world, self.data = args, run, world, data
        self.x = torch.from_numpy(data.x_train).to(device)
        self.y = torch.from_numpy(data.y_train).to(device)
        self.profiler: Any = None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser, which the strategy wraps."""
        return torch.optim.SGD(self.parameters(), lr=self.args.base_lr, momentum=MOMENTUM)

    def on_fit_start(self) -> None:
        """Go on from a checkpoint, now that the strategy has set up model and optimiser."""
        # Horovod: each rank learns from its own share, by its number among all ranks.
        count = len(self.data.y_train)
        shards = common.together(self.world, lambda: common.deal(self.args, self.world, count))
        # Horovod: from here on another seed on each rank, for dropout that differs.
        torch.manual_seed(self.args.seed + 1 + self.world.rank())
        optimizer = self.trainer.optimizers[0]
        scaled = {"scaler": self.trainer.precision_plugin.scaler} if self.args.amp else {}
        # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
        state = torch_common.State(self.world, self.network, optimizer, **scaled)
        self.course = self.run.resume(state, shards)
        # Horovod: all ranks stop in the same step, whichever of them was asked to.
        self.agreement = torch_common.Agreement(
            self.world, self.run, self.trainer.strategy.root_device
        )
        self.epochs = self.course.epochs()
        next(self.epochs, None)

    def train_dataloader(self) -> Parts:
        """Return the steps of this epoch."""
        return Parts(self.course, self.args.batches_per_allreduce)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, number: int) -> Any:
        """Return the indices as they are: the samples are on the device already."""
        return batch

    def on_train_start(self) -> None:
        """Take the signals back: on SIGTERM Lightning would end training without saving."""
        self.run.stop.listen()

    def on_train_epoch_start(self) -> None:
        """Begin an epoch."""
        self.train()
        self.loss_sum = torch.tensor(self.run.loss_before(), device=self.device)

    def on_train_batch_start(self, item: Any, number: int) -> None:
        """Set the learning rate, at the first part of a step."""
        if number % self.args.batches_per_allreduce:
            return
        batch, _ = item
        # Horovod: the rate grows with the number of ranks, after a warm-up.
        progress = self.course.epoch - 1 + batch.before / self.course.shards.count
        self.rate = common.learning_rate(self.args, self.world.size(), progress)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.rate
        self.losses = torch.zeros((), device=self.device)

    def training_step(self, item: Any, number: int) -> torch.Tensor:
        """Return the loss of one part, of which all ranks' mean is that of their samples."""
        batch, part = item
        # Horovod: a part may be empty here and not on other ranks, which wait for this one.
        guesses = self.network(self.x[part])
        loss = functional.cross_entropy(guesses, self.y[part], reduction="sum")
        self.losses += loss.detach()
        # Lightning divides by the number of parts, which the weight has done.
        return loss * torch_common.weight(self.args, batch) * len(batch.parts)

    def on_train_batch_end(self, outputs: Any, item: Any, number: int) -> None:
        """Count a step at its last part, and save if it is time to."""
        if (number + 1) % self.args.batches_per_allreduce:
            return
        self.agreement.ask(self.losses)
        self.loss_sum += self.losses
        stop = self.agreement.stop()
        self.run.step_done(item[0], self.losses)
        self.profiler.step()
        if self.run.must_save(stop=stop):
            # Horovod: a checkpoint has the sum of all ranks.
            total = self.world.allreduce(self.loss_sum, op=self.world.Sum, name="loss").item()
            self.run.save_within(total, stop=stop)

    def on_train_epoch_end(self) -> None:
        """Test and record; tell Lightning when it was the last epoch."""
        local = [self.loss_sum.item()]  # item() waits for the device: the clock stops after it
        seconds = self.course.seconds()
        local += [self.run.trained(), *self.evaluate()]
        totals = torch.tensor(local, dtype=torch.float64)
        # Horovod: sums over all ranks, so that the means count every sample alike.
        sums = self.world.allreduce(totals, op=self.world.Sum, name="sums")
        self.run.epoch_done(sums.tolist(), learning_rate=self.rate, seconds=seconds)
        self.trainer.should_stop = not self.course.more
        next(self.epochs, None)  # before Lightning asks for the steps of the next one

    def evaluate(self) -> list[float]:
        """Test this rank's share; return its sum of losses, its right answers and its size."""
        # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
        share = common.evaluation_share(len(self.data.y_test), self.world.rank(), self.world.size())
        loss = right = 0.0
        self.eval()
        with torch.no_grad():
            for part in common.chunks(share, EVALUATION_BATCH):
                x = torch.from_numpy(self.data.x_test[part]).to(self.device)
                y = torch.from_numpy(self.data.y_test[part]).to(self.device)
                guesses = self.network(x)
                loss += functional.cross_entropy(guesses, y, reduction="sum").item()
                right += (guesses.argmax(1) == y).sum().item()
        return [loss, right, len(share)]


if __name__ == "__main__":
    main()
