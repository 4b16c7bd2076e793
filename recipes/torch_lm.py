"""Train a small causal language model on synthetic tokens, with PyTorch and Horovod.

Data: made on the spot by `recipes/tokens.py`, so nothing is read and `--data` does not exist here.
Its entropy is known: the model has learned when the test loss comes near the `floor` that the
first line prints (chance is ln 64 = 4.16). The measure of speed is tokens per second.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_lm -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_lm
    python -m recipes.torch_lm

Rank 0 writes metrics.jsonl, result.json and checkpoints/torch_lm.pt into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import BinaryIO

import horovod
import horovod.torch as hvd
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from recipes import common, results, tokens

# The model: about half a million weights.
CONTEXT = 64  # tokens that it sees at once
WIDTH = 128  # of the vector that stands for a token
HEADS = 4  # of attention, per block
BLOCKS = 2
# The data, in sequences of CONTEXT + 1 tokens.
TRAINING_SEQUENCES = 4096
TEST_SEQUENCES = 256
EVALUATION_BATCH = 64  # sequences at once: bounds the memory, changes no result


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("torch_lm", "Train a small language model on synthetic tokens.")
    add = parser.add_argument
    add("--epochs", type=common.positive_int, default=3, help="passes over the training set")
    add("--batch-size", type=common.positive_int, default=16, help="sequences per step and rank")
    # One rank's rate: with N ranks a step sees N times the tokens, and the rate grows to N times.
    add("--base-lr", type=common.positive_float, default=0.001, help="learning rate for one rank")
    add("--warmup-epochs", type=common.natural_float, default=1, help="epochs to reach N times it")
    # The language is always the same, so results with different seeds can be compared.
    add("--seed", type=common.natural_int, default=1, help="of first weights and sample order")
    add("--log-interval", type=common.positive_int, default=100, help="steps between log lines")
    # The launcher sets OUTPUT_DIR.
    add("--output", default=results.default_output(), help="folder for results and checkpoints")
    # Halves what travels between the ranks, at the price of rounding.
    add("--fp16-allreduce", action="store_true", help="exchange gradients as 16-bit floats")
    add("--max-steps", type=common.positive_int, help="stop after this many steps, for a trial")
    return parser.parse_args(argv)


class Block(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """Attention to the tokens before, then a small network on each token by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project_in, self.project_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, length, WIDTH) to the same shape."""
        x = x + self.attend(self.before_attention(x))
        return x + self.network(self.before_network(x))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Let each place gather from itself and those before it."""
        batch, length, _ = x.shape
        heads = self.project_in(x).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(seen.transpose(1, 2).reshape(batch, length, WIDTH))


class LanguageModel(nn.Module):  # type: ignore[misc]  # as above
    """A transformer that guesses the next token at every place."""

    def __init__(self) -> None:
        super().__init__()
        self.meaning = nn.Embedding(tokens.VOCABULARY, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.guess = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, tokens.VOCABULARY))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, length) to unnormalised chances (batch, length, VOCABULARY)."""
        places = torch.arange(text.shape[1], device=text.device)
        return self.guess(self.blocks(self.meaning(text) + self.place(places)))


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, make the data, train, tell what came of it."""
    hvd.init()  # Horovod: find the other ranks.
    device = pick_device()
    # Horovod: an error on any rank stops all of them, with one message.
    args = common.together(hvd, lambda: settings(argv))
    run = common.together(hvd, lambda: results.Run(args, hvd, "tokens"))
    floor = tokens.floor(CONTEXT + 1)
    run.say(f"torch_lm: floor of the loss {floor:.4f}, {hvd.size()} ranks, {device}")

    model = train(args, run, device)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.detach().cpu().numpy() for weight in model.parameters())
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    hosts = results.hosts(hvd)  # Horovod: collective, so before rank 0 goes its own way.
    versions = {"torch": torch.__version__, "horovod": horovod.__version__}
    run.finish(hosts, versions, loss_floor=floor)
    hvd.shutdown()  # Horovod: leave together.


def pick_device() -> torch.device:
    """Choose a GPU if one is visible, else the CPU, with the threads this rank was given."""
    torch.set_num_threads(common.threads(hvd.local_size()))
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # Horovod: the ranks of one host take its GPUs in turn.
    torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def prepare(args: Namespace, device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    # Horovod: another seed on each rank, as is usual; the first weights of rank 0 win.
    torch.manual_seed(args.seed + hvd.rank())
    model = LanguageModel().to(device)
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=args.base_lr),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
    )
    # Horovod: all ranks start from the weights and the optimiser state of rank 0.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return model, optimizer


def train(args: Namespace, run: results.Run, device: torch.device) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    model, optimizer = prepare(args, device)
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.Shards(TRAINING_SEQUENCES, hvd.rank(), hvd.size(), args.seed)
    text = tokens.sample(TRAINING_SEQUENCES, CONTEXT + 1, part=1)
    steps_per_epoch = shards.steps(args.batch_size)
    last_step = min(args.epochs * steps_per_epoch, args.max_steps or sys.maxsize)
    step = epoch = 0
    while step < last_step:
        epoch += 1
        shards.set_epoch(epoch)  # Horovod: another order in each epoch, the same on all ranks.
        loss_sum, seen, began = torch.zeros((), device=device), 0, time.perf_counter()
        for batch in shards.batches(args.batch_size)[: last_step - step]:
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            progress = step / steps_per_epoch
            rate = common.learning_rate(args.base_lr, hvd.size(), progress, args.warmup_epochs)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = functional.cross_entropy(*guess(model, text[batch], device))
            loss.backward()
            optimizer.step()
            step += 1
            loss_sum += loss.detach() * len(batch) * CONTEXT
            seen += len(batch) * CONTEXT
            run.step_done(step, loss.detach())
        local = [loss_sum.item(), seen]  # item() waits for the device: the clock stops after it
        seconds = time.perf_counter() - began
        # Horovod: sums over all ranks, so that the means count every token alike.
        local = torch.tensor([*local, *evaluate(model, device)], dtype=torch.float64)
        sums = hvd.allreduce(local, op=hvd.Sum, name="sums").tolist()
        run.epoch_done(sums, epoch=epoch, step=step, learning_rate=rate, seconds=seconds)
        run.checkpoint("torch_lm.pt", partial(save, args, model, optimizer, epoch))
    return model


def guess(
    model: nn.Module, text: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Guess each next token of `text`; return all guesses in one row, and the true tokens."""
    given = torch.from_numpy(text).to(device)
    return model(given[:, :-1]).flatten(0, 1), given[:, 1:].flatten()


def evaluate(model: nn.Module, device: torch.device) -> list[float]:
    """Test this rank's share; return its sum of losses, its right guesses and its tokens."""
    # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
    share = common.evaluation_share(TEST_SEQUENCES, hvd.rank(), hvd.size())
    text = tokens.sample(TEST_SEQUENCES, CONTEXT + 1, part=2)
    loss = right = 0.0
    with torch.no_grad():
        for part in common.chunks(share, EVALUATION_BATCH):
            guesses, truth = guess(model, text[part], device)
            loss += functional.cross_entropy(guesses, truth, reduction="sum").item()
            right += (guesses.argmax(1) == truth).sum().item()
    return [loss, right, len(share) * CONTEXT]


def save(
    args: Namespace,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    stream: BinaryIO,
) -> None:
    """Write a checkpoint: weights, optimiser state, and the settings that led to them."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "epoch": epoch, "arguments": vars(args)}, stream)


if __name__ == "__main__":
    main()
