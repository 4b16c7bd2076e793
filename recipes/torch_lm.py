"""Train a small causal language model on tokens, with PyTorch and Horovod.

Data: with `--data DIR` (or DATA_DIR) the token files train.bin, val.bin and meta.json, as
`recipes/tokens.py` describes them, memory-mapped. Without it a synthetic language whose
entropy is known: the model has learned it when the test loss comes near the `floor` that the first
line prints (chance is ln 64 = 4.16). The measure of speed is tokens per second.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_lm -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_lm
    python -m recipes.torch_lm

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

from recipes import common, lm_options, options, tokens, torch_run
from recipes.language_model import LanguageModel, guess
from recipes.tokens import Tokens


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    return lm_options.parser("torch_lm", "Train a small language model on tokens.", {})


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(hvd, lambda: lm_options.checked(parser().settings(argv)))
    # Horovod: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(hvd, lambda: tokens.load(args.data, args.context, args.vocabulary))
    run = torch_run.Run(
        args, hvd, "torch_lm", device, about=data.describe(), unit="tokens", each=args.context
    )
    run.finish(train(run, data), loss_floor=data.floor)
    hvd.shutdown()  # Horovod: leave together.


def train(run: torch_run.Run, data: Tokens) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    args, device = run.args, run.device
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.train))
    model, optimizer = prepare(args, data, device)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(model, optimizer, shards)

    def tested(part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        return guess(model, data.test[part], device)

    for _ in run.epochs():
        for batch in run.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(args, hvd.size(), run.epochs_done))
            optimizer.zero_grad()
            # Horovod: a part may be empty here and not on other ranks, which wait for this one.
            for part in batch.parts:
                text = run.read(data.train, part)
                with run.autocast():
                    loss = functional.cross_entropy(*guess(model, text, device), reduction="sum")
                run.backward(loss)
            run.step(optimizer)  # Horovod: with the mean gradients of all ranks.
        run.epoch_done(lambda: run.evaluate(model, len(data.test), tested, args.batch_size))
    return model


def prepare(
    args: Namespace, data: Tokens, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    torch.manual_seed(args.seed)
    model = LanguageModel(args, data.vocabulary).to(device)
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=args.base_lr),
        named_parameters=model.named_parameters(),
        **torch_run.optimizer_options(args, hvd),
    )
    # Horovod: all ranks start from the weights of rank 0. The optimiser's state is empty, or comes
    # to all ranks from a checkpoint; hvd.broadcast_optimizer_state would take a step to make one,
    # and with weight decay that step changes the weights.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, optimizer


if __name__ == "__main__":
    main()
