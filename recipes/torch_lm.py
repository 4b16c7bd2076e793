"""Train a GPT-like language model on tokens, with PyTorch and Horovod, DDP or FSDP.

Data: with `--data DIR` (or DATA_DIR) the token files train.bin, val.bin and meta.json
(recipes/tokens.py). Without it a synthetic language whose entropy is known: the model has learned
it when the test loss comes near the `floor` that the first line prints (chance is ln 64 = 4.16).
`--synthetic` measures the speed with random tokens, made once on the device, without evaluation.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_lm -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_lm
    torchrun --nproc-per-node 2 -m recipes.torch_lm --exchange fsdp
    python -m recipes.torch_lm

`--exchange fsdp` (FSDP2) keeps only a part of weights, gradients and optimizer state on each rank;
its checkpoints are folders, written by all ranks, and go on with any number of ranks. Rank 0 writes
metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`). What is
distributed in this file is marked `# Horovod:`, `# DDP:` or `# FSDP:`. With one rank nothing is
exchanged, and neither Horovod nor DDP takes part.
"""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from recipes import distributed, options, results, run_fsdp, run_torch, tokens
from recipes.distributed import Ranks, UserError
from recipes.read_ahead import SequenceBatches
from recipes.run import Run

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.torch as hvd

STEPS = {"cpu": 10, "cuda": 50}  # of an epoch with --synthetic
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.1, 1.0


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("torch_lm", "Train a GPT-like language model on tokens.")
    add = parser.add_argument
    exchanges = ("horovod", "ddp", "fsdp")
    add("--exchange", choices=exchanges, default="horovod", help="averages the gradients")
    add("--synthetic", action="store_true", help="measure the speed with random tokens")
    add("--context", type=options.at_least(1), default=64, help="context length (block size)")
    add("--width", type=options.at_least(1), default=128, help="embedding dimension")
    add("--heads", type=options.at_least(1), default=4, help="attention heads of a layer")
    add("--layers", type=options.at_least(1), default=2, help="number of transformer layers")
    add("--vocabulary", type=options.at_least(1), help="its size, if meta.json does not say it")
    add("--epochs", type=options.at_least(1), default=3, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=16, help="sequences of a rank and pass")
    # Adam divides a gradient by its own size, so a larger batch, whose gradient has less noise,
    # allows the square root of its growth, not all of it (Malladi et al. 2022, arXiv:2205.10287).
    rate = "learning rate for one rank; N ranks have sqrt(N) times it"
    add("--base-lr", type=options.at_least(0.0), default=0.002, help=rate)
    add("--warmup-epochs", type=options.at_least(0.0), default=0.2, help="linear, then a cosine")
    parser.add_accumulation()
    add("--compile", action="store_true", help="compile the model by torch.compile")
    parser.add_horovod(adasum=False)
    return parser


def check(args: Namespace, world: Ranks) -> Namespace:
    """Return complete settings. Raises `UserError` for what does not go together."""
    if args.width % args.heads:
        raise UserError(f"--width {args.width} is no multiple of --heads {args.heads}")
    if args.exchange == "fsdp" and world.size == 1:
        raise UserError("--exchange fsdp: one rank has nothing to shard. Give --exchange ddp")
    if args.exchange == "fsdp" and args.fp16_allreduce:
        raise UserError("--fp16-allreduce is not for --exchange fsdp, which reduces in float32")
    if args.synthetic:
        args.checkpoint_every = args.checkpoint_every or sys.maxsize  # only at the end
    return distributed.check(args, world)


class Layer(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """Causal self-attention, then an MLP, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        wide = 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x))
        qkv = qkv.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.mlp_norm(x))


class LanguageModel(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self, args: Namespace, vocabulary: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, args.width)
        self.position_embedding = nn.Embedding(args.context, args.width)
        self.layers = nn.Sequential(*(Layer(args.width, args.heads) for _ in range(args.layers)))
        self.norm, self.lm_head = nn.LayerNorm(args.width), nn.Linear(args.width, vocabulary)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        positions = torch.arange(text.shape[1], device=text.device)
        x = self.token_embedding(text) + self.position_embedding(positions)
        return self.lm_head(self.norm(self.layers(x)))


def make_optimizer(args: Namespace, model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW, without weight decay of norms, biases and embeddings."""
    named = list(model.named_parameters())
    decayed = [w for name, w in named if w.ndim > 1 and "embedding" not in name]
    others = [w for name, w in named if w.ndim <= 1 or "embedding" in name]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    on_gpu = next(model.parameters()).is_cuda
    return torch.optim.AdamW(groups, args.base_lr, BETAS, weight_decay=WEIGHT_DECAY, fused=on_gpu)


def learning_rate(args: Namespace, size: int, epochs_done: float) -> float:
    """Return the rate: a linear warm-up to its peak, then a cosine to a tenth of that."""
    peak = args.base_lr * math.sqrt(size * args.batches_per_allreduce)
    if epochs_done < args.warmup_epochs:
        return float(peak * epochs_done / args.warmup_epochs)
    share = (epochs_done - args.warmup_epochs) / max(1e-9, args.epochs - args.warmup_epochs)
    return float(peak * (0.55 + 0.45 * math.cos(math.pi * min(1.0, share))))


def distribute(
    args: Namespace, world: Ranks, model: LanguageModel
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model to call and the optimizer, which average the gradients over all ranks."""
    network: nn.Module = model
    if EXCHANGE == "fsdp":
        run_fsdp.shard(args, model)  # FSDP: each rank keeps a part of the weights.
    elif EXCHANGE == "ddp" and world.size > 1:
        network = run_torch.with_ddp(model, args.fp16_allreduce)  # DDP: backward() averages.
    optimizer = make_optimizer(args, model)
    if EXCHANGE == "horovod" and world.size > 1:
        # Horovod: all ranks start from the weights of rank 0, and average the gradients.
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=model.named_parameters(),
            compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
            backward_passes_per_step=args.batches_per_allreduce,
        )
    return network, optimizer


def loss_function(args: Namespace, device: torch.device, network: nn.Module) -> Callable[..., Any]:
    """Return what maps tokens (batch, context + 1) to the sum of their losses."""

    def sum_of_losses(text: torch.Tensor) -> torch.Tensor:
        with run_torch.autocast(args, device):
            logits = network(text[:, :-1]).flatten(0, 1)
            return functional.cross_entropy(logits, text[:, 1:].flatten(), reduction="sum")

    compiled = args.compile and EXCHANGE != "fsdp"  # FSDP: its layers are, one by one
    return torch.compile(sum_of_losses) if compiled else sum_of_losses


def evaluate(run: Run, network: nn.Module, feed: SequenceBatches, test: Any) -> list[float]:
    """Return this rank's sum of losses, right tokens and number of tokens."""
    parts = run.test_parts(len(test), run.args.batch_size)
    if EXCHANGE == "fsdp":  # FSDP: as many parts on each rank, which gather weights together.
        share = math.ceil(len(test) / run.ranks.size)
        parts += [np.zeros(0, np.int64)] * (math.ceil(share / run.args.batch_size) - len(parts))

    def predict(part: Any) -> tuple[torch.Tensor, torch.Tensor]:
        text = feed.read(test, part)
        return network(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()

    # FSDP: weights cannot be gathered in inference mode.
    inference = torch.no_grad if EXCHANGE == "fsdp" else torch.inference_mode
    sums = run_torch.evaluate(run, network, parts, predict, inference)
    if run.failure:
        raise run.failure
    return sums


def load(args: Namespace, world: Ranks) -> tuple[Any, int]:
    """Return the data, None for random tokens, and the size of the vocabulary."""
    if args.synthetic:
        return None, args.vocabulary or tokens.VOCABULARY
    data = distributed.together(
        world, lambda: tokens.load(args.data, args.context, args.vocabulary)
    )
    return data, data.vocabulary


def facts(args: Namespace, run: Run, data: Any, number: int) -> dict[str, Any]:
    """Return what result.json has of this trainer's own; `number` is that of the weights."""
    # Forward and backward: 6 per weight and token, and 12 per layer, width and position.
    flops = 6 * number + 12 * args.layers * args.width * args.context
    floor = {"loss_floor": data.floor} if data else {}
    return {**floor, "exchange": EXCHANGE, "parameters": number, **results.utilization(run, flops)}


def main() -> None:
    # Horovod: find the other ranks.
    world = distributed.horovod(hvd) if EXCHANGE == "horovod" else distributed.torch_ranks()
    args = distributed.together(world, lambda: check(parser().parse_args(), world))
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = distributed.together(world, lambda: run_torch.pick_device(args, world))
    data, vocabulary = load(args, world)
    about = data.describe() if data else f"random tokens, vocabulary {vocabulary}, no evaluation"
    framework = run_torch.framework(device, world)
    run = Run(args, world, "torch_lm", framework, about, "tokens", args.context)

    torch.manual_seed(args.seed)
    model = LanguageModel(args, vocabulary).to(device)
    number = sum(weight.numel() for weight in model.parameters())
    network, optimizer = distribute(args, world, model)
    forward = loss_function(args, device, network)
    feed = SequenceBatches(args, run, vocabulary)
    state = (run_fsdp.State if EXCHANGE == "fsdp" else run_torch.State)(world, model, optimizer)
    steps = STEPS[device.type] * args.batch_size * args.batches_per_allreduce * world.size
    run.begin(len(data.train) if data else steps, state, drop_last=args.compile)
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's sequences of a step.
            done = run.epoch - 1 + batch.taken / run.shards.count
            run_torch.set_rate(run, optimizer, learning_rate(args, world.size, done))
            optimizer.zero_grad()
            losses = torch.zeros((), device=device)
            # A part may be empty here and not on other ranks, which wait for this one.
            for count, part in enumerate(batch.parts, 1):
                text = feed.read(data and data.train, part)
                with run_torch.pass_of_step(network, count == len(batch.parts)):
                    loss = forward(text)
                    (loss * (batch.weight / args.context)).backward()
                losses += loss.detach()
            run_torch.clip_and_step(model, optimizer, CLIP)
            run.step_done(losses)
        run.epoch_done((lambda: evaluate(run, network, feed, data.test)) if data else None)
    run.finish(run_torch.arrays(model.parameters()), **facts(args, run, data, number))


if __name__ == "__main__":
    main()
