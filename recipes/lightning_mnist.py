"""Train a small convolutional network on handwritten digits, with Lightning 2 and Horovod or DDP.

Lightning has had no strategy for Horovod since 2.0; the one in this file may be copied. With
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
from collections.abc import Callable, Iterator
from typing import Any

import lightning
import torch
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.strategies import DDPStrategy, ParallelStrategy
from torch import nn
from torch.distributed import ReduceOp
from torch.nn import functional

from recipes import digits, options, ranks, run_torch
from recipes.ranks import Ranks, UserError

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.torch as hvd


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("lightning_mnist", "Train a small network on digits, with Lightning.")
    add = parser.add_argument
    exchanges = ("horovod", "ddp")
    add("--exchange", choices=exchanges, default="horovod", help="what averages the gradients")
    add("--epochs", type=options.at_least(1), default=16, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=32, help="samples of a rank and pass")
    add("--base-lr", type=options.at_least(0.0), default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=3, help="epochs to N times it")
    add("--dropout", type=options.at_least(0.0, below=1), default=0.5, help="dropout probability")
    accumulation = "gradient accumulation steps"
    add("--batches-per-allreduce", type=options.at_least(1), default=1, help=accumulation)
    parser.add_horovod()
    return parser


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

    Call hvd.init() before. `settings` are those of `hvd.DistributedOptimizer`. To accumulate over k
    batches give `backward_passes_per_step=k` here and `accumulate_grad_batches=k` to the Trainer.
    """

    strategy_name = "horovod"
    is_distributed = True  # else Lightning would give all ranks the same samples
    optimizers: list[torch.optim.Optimizer]

    def __init__(self, device: torch.device, world: Ranks, **settings: Any) -> None:
        devices = [device] * world.local_size  # Lightning takes that of the local rank
        super().__init__(parallel_devices=devices, cluster_environment=Environment(world))
        self.settings = settings

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
        hvd.broadcast_parameters(module.state_dict(), root_rank=0)
        plain, self.optimizers = self.optimizers, []
        for optimizer in plain:
            own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
            named = [each for each in module.named_parameters() if id(each[1]) in own]
            # Horovod: averages gradients over all ranks, under the weights' names.
            each = hvd.DistributedOptimizer(optimizer, named_parameters=named, **self.settings)
            self.optimizers.append(each)
            if each.state_dict()["state"]:  # Horovod: without one it would take a step to make it.
                hvd.broadcast_optimizer_state(each, root_rank=0)
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
        return hvd.allreduce(
            tensor, op=hvd.Sum if reduce_op in ("sum", ReduceOp.SUM) else hvd.Average
        )

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return all ranks' tensors of one shape, stacked by rank: (ranks, ...)."""
        with torch.set_grad_enabled(sync_grads and torch.is_grad_enabled()):
            # Horovod: joins along the first dimension, so one is added.
            return hvd.allgather(tensor.unsqueeze(0))

    def barrier(self, name: str | None = None) -> None:
        hvd.barrier()  # Horovod: nobody goes on before the last is here.

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return hvd.broadcast_object(obj, root_rank=src)  # Horovod: pickled.


class Steps:
    """What Lightning takes for a DataLoader: each backward pass of an epoch's steps left."""

    def __init__(self, run: run_torch.Run) -> None:
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

    def __init__(self, run: run_torch.Run, data: digits.Digits) -> None:
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
        self.epochs = self.run.epochs()
        next(self.epochs, None)

    def train_dataloader(self) -> Steps:
        return Steps(self.run)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, number: int) -> Any:
        return batch  # indices: the samples are on the device

    def on_train_start(self) -> None:
        self.run.listen()  # on SIGTERM Lightning would end training without saving

    def on_train_batch_start(self, part: Any, number: int) -> None:
        if number % self.args.batches_per_allreduce == 0:
            self.losses = torch.zeros((), device=self.run.device)
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            self.run.rate = ranks.learning_rate(self.args, self.world.size, self.run.epochs_done)
            for group in self.trainer.optimizers[0].param_groups:
                group["lr"] = self.run.rate

    def training_step(self, part: Any, number: int) -> torch.Tensor:
        """Return the loss of one part, of which all ranks' mean is that of their samples."""
        # Horovod: a part may be empty here and not on other ranks, which wait for this one.
        logits = self.network(self.x[part])
        loss = functional.cross_entropy(logits, self.y[part], reduction="sum")
        self.losses += loss.detach()
        batch, passes = self.run.batch, self.args.batches_per_allreduce
        weight = 1 / max(1, batch.own) if self.args.adasum else batch.weight
        return loss * (weight * passes)  # Lightning divides by the number of parts

    def on_train_batch_end(self, outputs: Any, part: Any, number: int) -> None:
        if (number + 1) % self.args.batches_per_allreduce == 0:
            self.run.step_done(self.losses)  # Horovod: the strategy has exchanged the gradients.

    def on_train_epoch_end(self) -> None:
        """Test and record; tell Lightning when it was the last epoch."""
        test = self.run.test_parts(len(self.y_test), run_torch.TEST_BATCH)
        self.run.epoch_done(lambda: self.run.evaluate(self, test, self.predict))
        self.trainer.should_stop = self.run.step >= self.run.last_step
        next(self.epochs, None)  # before Lightning asks for the steps of the next one

    def predict(self, part: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self.network(self.x_test[part]), self.y_test[part]


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


def read_options(world: Ranks) -> Namespace:
    args = parser().parse_args()
    if args.exchange == "ddp" and (args.adasum or args.fp16_allreduce or args.timeline):
        raise UserError(
            "--adasum, --fp16-allreduce and --timeline are Horovod's: not with --exchange ddp"
        )
    ranks.check_adasum(args, world)
    return args


def main() -> None:
    # Horovod: find the other ranks.
    world = ranks.horovod(hvd) if EXCHANGE == "horovod" else run_torch.find_ranks()
    args = ranks.together(world, lambda: read_options(world))
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = ranks.together(world, lambda: run_torch.pick_device(args, world))
    data = ranks.together(world, lambda: digits.load(args.data))
    versions = {"lightning": lightning.__version__}
    run = run_torch.Run(args, world, "lightning_mnist", device, data.describe(), versions=versions)
    torch.manual_seed(args.seed)
    module = Module(run, data)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")  # advice on loaders and loggers
    trainer = lightning.Trainer(
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
    trainer.fit(module)
    run.finish(run_torch.arrays(module.parameters()), exchange=EXCHANGE)


if __name__ == "__main__":
    main()
