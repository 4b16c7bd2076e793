"""Train a small causal language model on tokens, with PyTorch and Horovod.

Data: with `--data DIR` (or DATA_DIR) the token files train.bin, val.bin and meta.json, as
`recipes/token_files.py` describes them, memory-mapped. Without it a synthetic language whose
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

import horovod
import horovod.torch as hvd
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from recipes import common, token_files, torch_common
from recipes.token_files import Tokens

NOT_HERE = {"workers": "tokens are read through a memory map"}


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("torch_lm", "Train a small language model on tokens.")
    common.add_common(parser, epochs=3, batch_size=16, base_lr=0.001, warmup=1)
    add = parser.add_argument
    # The model: about half a million weights with the defaults.
    add("--context", type=common.positive_int, default=64, help="tokens that it sees at once")
    add("--width", type=common.positive_int, default=128, help="of the vector for a token")
    add("--heads", type=common.positive_int, default=4, help="of attention, per block")
    add("--blocks", type=common.positive_int, default=2, help="of attention and network")
    add("--vocabulary", type=common.positive_int, help="its size, if meta.json does not tell")
    args = common.parse(parser, argv, NOT_HERE)
    if args.width % args.heads:
        raise common.UserError(f"--width {args.width} is no multiple of --heads {args.heads}")
    return args


class Block(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """Attention to the tokens before, then a small network on each token by itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project_in, self.project_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, length, width) to the same shape."""
        x = x + self.attend(self.before_attention(x))
        return x + self.network(self.before_network(x))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Let each place gather from itself and those before it."""
        batch, length, width = x.shape
        heads = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(seen.transpose(1, 2).reshape(batch, length, width))


class LanguageModel(nn.Module):  # type: ignore[misc]  # as above
    """A transformer that guesses the next token at every place."""

    def __init__(self, args: Namespace, vocabulary: int) -> None:
        super().__init__()
        width = args.width
        self.meaning = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(args.context, width)
        self.blocks = nn.Sequential(*(Block(width, args.heads) for _ in range(args.blocks)))
        self.guess = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, length) to unnormalised chances (batch, length, vocabulary)."""
        places = torch.arange(text.shape[1], device=text.device)
        return self.guess(self.blocks(self.meaning(text) + self.place(places)))


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    common.before_init(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: an error on any rank stops all of them, with one message.
    args = common.together(hvd, lambda: settings(argv))
    device = common.together(hvd, lambda: torch_common.pick_device(args, hvd))
    data = common.together(hvd, lambda: token_files.load(args.data, args.context, args.vocabulary))
    versions = {"torch": torch.__version__, "horovod": horovod.__version__}
    run = common.Run(
        args, hvd, "torch_lm", device=str(device), versions=versions, unit="tokens",
        each=args.context,
    )  # fmt: skip
    run.introduce(data.describe())

    model = train(args, run, data, device)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.detach().cpu().numpy() for weight in model.parameters())
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    run.finish(loss_floor=data.floor)
    hvd.shutdown()  # Horovod: leave together.


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
        **torch_common.exchange(args, hvd),
    )
    # Horovod: all ranks start from the weights of rank 0. The optimiser's state is empty, or comes
    # to all ranks from a checkpoint; hvd.broadcast_optimizer_state would take a step to make one,
    # and with weight decay that step changes the weights.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, optimizer


def train(args: Namespace, run: common.Run, data: Tokens, device: torch.device) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.together(hvd, lambda: common.deal(args, hvd, len(data.train)))
    model, optimizer = prepare(args, data, device)
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    course = run.resume(torch_common.State(hvd, model, optimizer, scaler=scaler), shards)
    # Horovod: all ranks stop in the same step, whichever of them was asked to or read a bad token.
    agreement = torch_common.Agreement(hvd, run, device)
    with torch_common.profiled(args, run) as profiler:
        for epoch in course.epochs():
            loss_sum = torch.tensor(run.loss_before(), device=device)
            for batch in course.batches():
                # Horovod: the rate grows with the number of ranks, after a warm-up.
                progress = epoch - 1 + batch.before / shards.count
                rate = common.learning_rate(args, hvd.size(), progress)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.zero_grad()
                losses = torch.zeros((), device=device)
                # Horovod: a part may be empty here and not on other ranks, which wait for this one.
                for part in batch.parts:
                    text = agreement.read(data.train, part)
                    with torch_common.autocast(args, device):
                        loss = functional.cross_entropy(
                            *guess(model, text, device), reduction="sum"
                        )
                    weight = torch_common.weight(args, batch) / args.context
                    scaler.scale(loss * weight).backward()
                    losses += loss.detach()
                agreement.ask(losses)
                torch_common.update(args, optimizer, scaler)
                loss_sum += losses
                stop = agreement.stop()
                run.step_done(batch, losses)
                profiler.step()
                if run.must_save(stop=stop):
                    # Horovod: a checkpoint has the sum of all ranks.
                    total = hvd.allreduce(loss_sum, op=hvd.Sum, name="loss").item()
                    run.save_within(total, stop=stop)
            local = [loss_sum.item()]  # item() waits for the device: the clock stops after it
            seconds = course.seconds()
            local.append(run.trained())
            # Horovod: a bad token may be in one rank's share only.
            local += common.together(hvd, lambda: evaluate(args, model, data, device))
            # Horovod: sums over all ranks, so that the means count every token alike.
            sums = hvd.allreduce(torch.tensor(local, dtype=torch.float64), op=hvd.Sum, name="sums")
            run.epoch_done(sums.tolist(), learning_rate=rate, seconds=seconds)
    return model


def guess(
    model: nn.Module, text: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Guess each next token of `text`; return all guesses in one row, and the true tokens."""
    given = torch.from_numpy(text).to(device)
    return model(given[:, :-1]).flatten(0, 1), given[:, 1:].flatten()


def evaluate(args: Namespace, model: nn.Module, data: Tokens, device: torch.device) -> list[float]:
    """Test this rank's share; return its sum of losses, its right guesses and its tokens."""
    # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
    share = common.evaluation_share(len(data.test), hvd.rank(), hvd.size())
    loss = right = 0.0
    with torch.no_grad():
        for part in common.chunks(share, args.batch_size):
            guesses, truth = guess(model, data.test[part], device)
            loss += functional.cross_entropy(guesses, truth, reduction="sum").item()
            right += (guesses.argmax(1) == truth).sum().item()
    return [loss, right, len(share) * args.context]


if __name__ == "__main__":
    main()
