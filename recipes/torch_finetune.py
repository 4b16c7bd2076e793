"""Fine-tune a transformer to classify texts, with transformers, peft, PyTorch and Horovod.

All weights learn, or with `--lora` only small adapters beside them: only what learns is exchanged
between the ranks and saved. The model is a local folder (`--model DIR`: config.json, *.safetensors
and a tokenizer) or a small random one; nothing is downloaded.

Data: synthetic reviews, or with `--data DIR` (or DATA_DIR) texts with labels
as .tsv, .csv or .jsonl, the form of NSMC included (recipes/texts.py). With the defaults at least
97 % of the synthetic test reviews are right, with 1, 2 or 4 ranks; half of them would be chance.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_finetune -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_finetune
    python -m recipes.torch_finetune --model ~/models/bert --data ~/data/nsmc --lora

Rank 0 writes metrics.jsonl, result.json, checkpoints/, tensorboard/ and the finished model, in
the form of transformers or peft, into OUTPUT_DIR (by hand: `out`). To start a trainer of your own,
copy this file; what is distributed in it is marked `# Horovod:`.
"""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import horovod.torch as hvd
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from recipes import common, options, pretrained, texts, torch_run

EVALUATION_BATCH = 64  # texts at once: bounds the memory, changes no result


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    not_here = {"workers": "the data is in memory"}
    about = "Fine-tune a transformer to classify texts."
    parser = options.Parser("torch_finetune", about, not_here)
    options.add_common(parser, epochs=6, batch_size=16, base_lr=0.0005, warmup=1)
    add = parser.add_argument
    add("--model", metavar="DIR", help="folder with the model; without: a small random one")
    add("--max-length", type=options.positive_int, default=128, help="tokens of a text to look at")
    add("--lora", action="store_true", help="train adapters of low rank only (LoRA)")
    add("--lora-rank", type=options.positive_int, default=8, help="width of the adapters")
    add("--lora-alpha", type=options.positive_float, default=16, help="weight of the adapters")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(hvd, lambda: parser().settings(argv))
    # Horovod: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(hvd, lambda: texts.load(args.data))
    torch.manual_seed(args.seed)  # the same on all ranks, for the weights that are random
    model, tokenizer = common.on_all_ranks(hvd, lambda: pretrained.build(args, data))
    versions = {"transformers": pretrained.library().__version__}
    about = f"{data.describe()}, {describe(model)}"
    run = torch_run.Run(args, hvd, "torch_finetune", device, about=about, versions=versions)
    train(run, data, tokenizer, model.to(device))
    keep(run, model, tokenizer)
    total, learning = count(model)
    run.finish(model, parameters=total, learning_parameters=learning)
    hvd.shutdown()  # Horovod: leave together.


def train(run: torch_run.Run, data: texts.Texts, tokenizer: Any, model: nn.Module) -> None:
    """Train over all epochs, testing and recording after each."""
    args, device = run.args, run.device
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.train))
    x, y = pretrained.encode(tokenizer, data.train, args.max_length), torch.from_numpy(data.y_train)
    learning, optimizer = prepare(args, model)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(learning, optimizer, shards, State)

    def guess(part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        words = pretrained.encode(tokenizer, [data.test[i] for i in part], args.max_length)
        truth = torch.from_numpy(data.y_test[part]).to(device)
        return guesses_of(model, words, np.arange(len(part)), device), truth

    for _ in run.epochs():
        model.train()
        for batch in run.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(args, hvd.size(), run.epochs_done))
            optimizer.zero_grad()
            # Horovod: a part may be empty here and not on other ranks, which wait for this one.
            for part in batch.parts:
                with run.autocast():
                    loss = losses_of(model, x, y, part, device).sum()
                run.backward(loss)
            run.step(optimizer)  # Horovod: with the mean gradients of all ranks.
        run.epoch_done(lambda: run.evaluate(model, len(data.test), guess, EVALUATION_BATCH))


def count(model: nn.Module) -> tuple[int, int]:
    """Return the number of all weights, and of those that learn."""
    sizes = [(weight.numel(), weight.requires_grad) for weight in model.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, learns in sizes if learns)


def describe(model: nn.Module) -> str:
    """Say in a few words what learns."""
    total, learning = count(model)
    return f"{model.config.model_type} with {total:,} weights of which {learning:,} learn"


class State(torch_run.State):
    """What a checkpoint holds: the weights that learn, and which others they belong to."""

    def signature(self) -> str:
        """Tell this model's weights from another's, by the values of those that do not learn."""
        shapes = [(name, weight.shape) for name, weight in self.model.state_dict().items()]
        return common.signature([*shapes, (self.model.digest(), ())])


def prepare(args: Namespace, model: nn.Module) -> tuple[pretrained.Learning, torch.optim.Optimizer]:
    """Make all ranks start from the same weights, and let Horovod exchange those that learn."""
    learning = pretrained.Learning(model)
    # Horovod: what does not learn is not sent, so each rank must have read the same.
    digests = hvd.allgather_object(learning.digest(), name="frozen")
    common.on_all_ranks(hvd, lambda: require_same(args, digests))
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW([weight for _, weight in named], lr=args.base_lr),
        named_parameters=named,
        **torch_run.optimizer_options(args, hvd),
    )
    # Horovod: all ranks start from the weights of rank 0. The optimiser's state is empty, or comes
    # to all ranks from a checkpoint; hvd.broadcast_optimizer_state would take a step to make one,
    # and with weight decay that step changes the weights.
    hvd.broadcast_parameters(learning.state_dict(), root_rank=0)
    # Horovod: from here on another seed on each rank, for dropout that differs.
    torch.manual_seed(args.seed + 1 + hvd.rank())
    return learning, optimizer


def require_same(args: Namespace, digests: list[str]) -> None:
    """Raise `UserError` unless all ranks have the same weights that do not learn."""
    strays = [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    if strays:
        raise common.UserError(
            f"--model {args.model} has other weights on rank {', '.join(strays)} than on rank 0:"
            " copy it again, or name a folder that all nodes share"
        )


def guesses_of(
    model: nn.Module, x: pretrained.Tokens, part: common.Indices, device: torch.device
) -> torch.Tensor:
    """Return (texts, classes) unnormalised chances for the texts of `part`."""
    filler = model.config.pad_token_id
    return model(**pretrained.padded([x[i] for i in part], filler, device)).logits


def losses_of(
    model: nn.Module, x: pretrained.Tokens, y: torch.Tensor, part: common.Indices,
    device: torch.device,
) -> torch.Tensor:  # fmt: skip
    """Return the loss of each text of `part`; for none nothing, which has gradients all the same.

    transformers' models take no empty batch, so then they get the first text for show.
    """
    used = part if len(part) else np.zeros(1, np.int64)
    guesses = guesses_of(model, x, used, device)
    losses = functional.cross_entropy(guesses, y[used].to(device), reduction="none")
    return losses[: len(part)]


def keep(run: torch_run.Run, model: nn.Module, tokenizer: Any) -> None:
    """Let rank 0 write the finished model, or its adapters, to `model` in the output folder."""
    if not run.speaks:
        return
    folder, part = run.folder / "model", run.folder / ".model.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        for each in (model, tokenizer):
            each.save_pretrained(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        run.say(f"warning: {folder} was not written: {error.strerror or error}")


if __name__ == "__main__":
    main()
