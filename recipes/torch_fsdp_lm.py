"""Train the language model of `torch_lm` with PyTorch's FSDP: each rank has a part of the weights.

The same model, data, options and results as `torch_lm`. Between two uses each rank keeps only its
part of weights, gradients and the optimiser's state (fully_shard, "FSDP2", torch 2.6 and later).

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_fsdp_lm -- --epochs 5
    torchrun --nproc-per-node 2 -m recipes.torch_fsdp_lm
    python -m recipes.torch_fsdp_lm

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). A checkpoint is one file of whole weights; with `--sharded-checkpoints` each rank writes its
own part, which larger models need. Both go on with any number of ranks. What is distributed in this
file is marked `# FSDP:`.
"""

from __future__ import annotations

import math
import warnings
from argparse import Namespace
from collections.abc import Sequence
from functools import partial

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn import functional

from recipes import common, lm_options, options, process_group, tokens, torch_run
from recipes.fsdp_checkpoint import State
from recipes.language_model import LanguageModel, guess
from recipes.process_group import World
from recipes.tokens import Tokens


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    about = "Train a small language model, with FSDP."
    parser = lm_options.parser("torch_fsdp_lm", about, options.without_horovod("FSDP"))
    text = "each rank writes its own part of a checkpoint"
    parser.add_argument("--sharded-checkpoints", action="store_true", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    world = process_group.join()  # FSDP: find the other ranks, by RANK, MASTER_ADDR and the rest.
    # FSDP: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(world, lambda: lm_options.checked(parser().settings(argv)))
    # FSDP: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(world, lambda: tokens.load(args.data, args.context, args.vocabulary))
    run = Run(
        args, world, "torch_fsdp_lm", device, about=data.describe(), unit="tokens",
        each=args.context,
    )  # fmt: skip
    run.finish(train(run, world, data), loss_floor=data.floor, exchange="fsdp")
    world.shutdown()  # FSDP: leave together,
    common.leave(0)  # and at once: Gloo's threads may abort Python's way out.


def train(run: Run, world: World, data: Tokens) -> FSDPModule:
    """Train over all epochs, testing and recording after each; return the model."""
    args, device = run.args, run.device
    # FSDP: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.train))
    model = prepare(args, world, data, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.base_lr)  # FSDP: of this rank's part.
    run.resume(model, optimizer, shards, partial(State, run, args.sharded_checkpoints))

    def tested(part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        return guess(model, run.read(data.test, part), device)

    def evaluate() -> list[float]:
        sums = run.evaluate(model, len(data.test), tested, args.batch_size)
        run.tell_failure()
        return sums

    for _ in run.epochs():
        for batch in run.batches():
            # FSDP: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(args, world.size(), run.epochs_done))
            optimizer.zero_grad()
            # FSDP: a part may be empty here and not on other ranks, which wait for this one.
            for number, part in enumerate(batch.parts, 1):
                # FSDP: the last backward pass of a step exchanges what all of them added up.
                model.set_requires_gradient_sync(number == len(batch.parts))
                text = run.read(data.train, part)
                with run.autocast():
                    guesses, truth = guess(model, text, device)
                    loss = functional.cross_entropy(guesses, truth, reduction="sum")
                run.backward(loss)
            run.step(optimizer)
        run.epoch_done(evaluate)
    return model


def prepare(args: Namespace, world: World, data: Tokens, device: torch.device) -> FSDPModule:
    """Build the model, equal on all ranks, and leave each rank its part."""
    # Nothing here changes what the model returns in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    torch.manual_seed(args.seed)  # FSDP: all ranks begin with the same weights.
    model = LanguageModel(args, data.vocabulary).to(device)
    mesh = init_device_mesh(device.type, (world.size(),))
    reduced = torch.float16 if args.fp16_allreduce else None
    policy = MixedPrecisionPolicy(reduce_dtype=reduced)
    # FSDP: a block at a time is whole on each rank, while it computes; then the rest.
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


class Run(torch_run.Run):
    """A run whose model computes on all ranks together, in testing too."""

    def test_parts(self, count: int, at_once: int) -> list[common.Indices]:
        """Return this rank's share of test samples; some parts may be empty."""
        parts = super().test_parts(count, at_once)
        # FSDP: as many on each rank, which all have to gather the weights at the same time.
        most = math.ceil(math.ceil(count / self.hvd.size()) / at_once)
        return parts + [common.evaluation_share(0, 0, 1)] * (most - len(parts))

    def finish(self, model: nn.Module, **facts: object) -> None:
        """Write result.json. Collective."""
        # FSDP: each rank asks the others for their parts.
        whole = (weight.full_tensor() for weight in model.parameters())
        self.conclude((weight.detach().cpu().numpy() for weight in whole), **facts)


if __name__ == "__main__":
    main()
