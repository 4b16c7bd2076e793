"""Fine-tune a transformer to classify texts, with transformers, peft, PyTorch and Horovod.

All weights are trained, or with `--lora` only small adapters beside them: only what is trained is
exchanged between the ranks and saved. The model is a local folder (`--model DIR`: config.json,
*.safetensors and a tokenizer) or a small random one; nothing is downloaded.

Data: synthetic reviews, or with `--data DIR` (or DATA_DIR) texts with labels as .tsv, .csv or
.jsonl, the form of NSMC included (recipes/texts.py). With the defaults at least 97 % of the
synthetic test reviews are right, with 1, 2 or 4 ranks; half of them would be chance.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_finetune -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_finetune
    python -m recipes.torch_finetune --model ~/models/bert --data ~/data/nsmc --lora

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and model/, in the form of transformers or
peft, into OUTPUT_DIR (without runner: `out`). What is distributed is marked `# Horovod:`.
"""

from __future__ import annotations

import hashlib
import shutil
from argparse import Namespace
from typing import Any

import horovod.torch as hvd
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from recipes import distributed, options, run_torch, text_models, texts
from recipes.distributed import Batch, Ranks, UserError
from recipes.run import Run

TEST_BATCH = 64  # texts at once


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("torch_finetune", "Fine-tune a transformer to classify texts.")
    add = parser.add_argument
    add("--model", metavar="DIR", help="folder with the model; without: a small random one")
    add("--max-length", type=options.at_least(1), default=128, help="maximum tokens of a text")
    add("--lora", action="store_true", help="train low-rank adapters only (LoRA)")
    add("--lora-rank", type=options.at_least(1), default=8, help="rank of the adapters")
    add("--lora-alpha", type=options.at_least(0.0), default=16, help="scale of the adapters")
    add("--epochs", type=options.at_least(1), default=6, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=16, help="texts of a rank and pass")
    rate = "learning rate for one rank; N ranks have sqrt(N) times it"
    add("--base-lr", type=options.at_least(0.0), default=0.0005, help=rate)
    add("--warmup-epochs", type=options.at_least(0.0), default=1, help="epochs to sqrt(N) times it")
    parser.add_accumulation()
    parser.add_horovod(adasum=False)
    return parser


def encode(args: Namespace, tokenizer: Any, lines: list[str]) -> list[Any]:
    """Return the tokens of each text, at most --max-length."""
    encoded = tokenizer(lines, truncation=True, max_length=args.max_length)["input_ids"]
    return [np.array(tokens) for tokens in encoded]


def logits_of(model: nn.Module, tokens: list[Any], device: torch.device) -> torch.Tensor:
    """Return logits (texts, classes)."""
    lengths = torch.tensor([len(text) for text in tokens])
    ids = torch.full((len(tokens), int(lengths.max())), model.config.pad_token_id)
    for row, text in zip(ids, tokens):
        row[: len(text)] = torch.from_numpy(text)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits


def trained_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return what a checkpoint has."""
    frozen = {name for name, w in model.named_parameters() if not w.requires_grad}
    return {name: w for name, w in model.state_dict().items() if name not in frozen}


def sizes(model: nn.Module) -> dict[str, int]:
    """Return how many parameters the model has, and how many of them are trained."""
    weights = list(model.parameters())
    trained = [weight for weight in weights if weight.requires_grad]
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "trainable_parameters": sum(weight.numel() for weight in trained),
    }


def describe(model: nn.Module) -> str:
    total, trained = sizes(model).values()
    return f"{model.config.model_type} with {total:,} parameters, {trained:,} trained"


def frozen_digest(model: nn.Module) -> str:
    total = hashlib.sha256()
    for weight in model.parameters():
        if not weight.requires_grad:
            total.update(weight.detach().cpu().numpy().tobytes())
    return total.hexdigest()


def require_same(args: Namespace, world: Ranks, model: nn.Module) -> None:
    """Check that all ranks have read the same weights: those that are not trained are not sent."""
    digests = world.gather(frozen_digest(model))  # Horovod: of each rank.
    strays = [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    failure = UserError(
        f"--model {args.model} has other weights on rank {', '.join(strays)} than on rank 0:"
        " copy it again, or name a folder that all nodes share"
    )
    distributed.exchange(world, failure=failure if strays else None)


def save_model(run: Run, *parts: Any) -> None:
    """Let rank 0 write the finished model, or its adapters, to `model` in the output folder."""
    if not run.main:
        return
    folder, part = run.folder / "model", run.folder / ".model.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        for saved in parts:
            saved.save_pretrained(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        run.say(f"warning: {folder} was not written: {error.strerror or error}")


def distribute(
    args: Namespace, trained: list[tuple[str, nn.Parameter]], device: torch.device
) -> torch.optim.Optimizer:
    """Return AdamW that first averages the gradients over all ranks."""
    weights = [weight for _, weight in trained]
    adamw = torch.optim.AdamW(weights, lr=args.base_lr, fused=device.type == "cuda")
    # Horovod: step() first averages the gradients over all ranks, which start from the weights of
    # rank 0. The optimizer's state is empty: hvd.broadcast_optimizer_state would take a step to
    # make one, and with weight decay that step changes the weights.
    return hvd.DistributedOptimizer(
        adamw,
        named_parameters=trained,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=args.batches_per_allreduce,
    )


def backward(
    args: Namespace,
    model: nn.Module,
    batch: Batch,
    x: list[Any],
    y: torch.Tensor,
    device: torch.device,
) -> torch.Tensor:
    """Do the backward passes of a step; return the sum of the losses of this rank's texts."""
    losses = torch.zeros((), device=device)
    for part in batch.parts:
        # Horovod: a part may be empty here and not on other ranks, which wait for this one.
        # transformers takes no empty batch, so it is the first text, times zero.
        used, weight = (part, batch.weight) if len(part) else ([0], 0.0)
        with run_torch.autocast(args, device):
            logits = logits_of(model, [x[number] for number in used], device)
            loss = functional.cross_entropy(logits, y[used].to(device), reduction="sum")
        (loss * weight).backward()
        if len(part):
            losses += loss.detach()
    return losses


def main() -> None:
    world = distributed.horovod(hvd)  # Horovod: find the other ranks.
    # Horovod: an error on any rank is printed once and ends all of them.
    args = distributed.together(world, lambda: parser().parse_args())
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = distributed.together(world, lambda: run_torch.pick_device(args, world))
    data = distributed.together(world, lambda: texts.load(args.data))
    torch.manual_seed(args.seed)  # the same on all ranks, for the weights that are random
    model, tokenizer = distributed.together(world, lambda: text_models.build(args, data))
    require_same(args, world, model)
    model.to(device)
    trained = [(name, w) for name, w in model.named_parameters() if w.requires_grad]
    about = f"{data.describe()}, {describe(model)}"
    framework = run_torch.framework(device, world, **text_models.VERSIONS)
    run = Run(args, world, "torch_finetune", framework, about)

    optimizer = distribute(args, trained, device)
    state = run_torch.State(
        world,
        model,
        optimizer,
        weights=lambda: trained_weights(model),
        more=lambda: frozen_digest(model),  # a checkpoint belongs to one model
    )
    hvd.broadcast_parameters(trained_weights(model), root_rank=0)  # Horovod: those of rank 0.
    # Horovod: from here on another seed on each rank, for dropout that differs.
    torch.manual_seed(args.seed + 1 + world.rank)
    x, y = encode(args, tokenizer, data.train), torch.from_numpy(data.y_train)
    x_test, y_test = encode(args, tokenizer, data.test), torch.from_numpy(data.y_test)
    test = run.test_parts(len(y_test), TEST_BATCH)

    def predict(part: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return logits_of(model, [x_test[i] for i in part], device), y_test[part].to(device)

    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.begin(len(y), state)
    model.train()
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's texts of a step.
            # Horovod: Adam's rate grows with the square root of the number of ranks.
            rate = distributed.learning_rate(args, world.size, run.epochs_done, power=0.5)
            run_torch.set_rate(run, optimizer, rate)
            optimizer.zero_grad()
            losses = backward(args, model, batch, x, y, device)
            optimizer.step()  # Horovod: with the mean gradients of all ranks.
            run.step_done(losses)
        run.epoch_done(lambda: run_torch.evaluate(run, model, test, predict))
    save_model(run, model, tokenizer)
    run.finish(run_torch.arrays(model.parameters()), **sizes(model))


if __name__ == "__main__":
    main()
