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
import os
import shutil
import warnings
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import horovod.torch as hvd
import numpy as np
import torch
from torch import nn
from torch.nn import functional

# Before the import: nothing is downloaded, and the ranks of a node share its cores.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import transformers

from recipes import options, ranks, run_torch, saving, texts
from recipes.ranks import Ranks, UserError

TEST_BATCH = 64  # texts at once
# The random model: 0.1 million weights, and the most frequent words of the training texts.
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WORDS = 8000
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}


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
    accumulation = "gradient accumulation steps"
    add("--batches-per-allreduce", type=options.at_least(1), default=1, help=accumulation)
    add("--fp16-allreduce", action="store_true", help="exchange gradients in float16")
    add("--timeline", action="store_true", help="write Horovod's timeline into --output")
    return parser


def build(args: Namespace, data: texts.Texts) -> tuple[nn.Module, Any]:
    """Return model and tokenizer for the classes of `data`; `--lora` adds adapters.

    Raises `UserError` naming what is missing in the folder of `--model`, or cannot be read.
    """
    if args.model:
        model, tokenizer = local(Path(args.model), data.classes)
    else:
        model, tokenizer = small(data)
    if model.config.pad_token_id is None:  # models of GPT's kind; without one: one text at a time
        model.config.pad_token_id = pad_id(tokenizer)
    return (with_adapters(model, args) if args.lora else model), tokenizer


def small(data: texts.Texts) -> tuple[nn.Module, Any]:
    """Return a small random BERT, and a tokenizer with the words of the training texts."""
    tokenizer = words(data.train)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), num_labels=data.classes, pad_token_id=pad_id(tokenizer), **SMALL
    )
    return transformers.AutoModelForSequenceClassification.from_config(config), tokenizer


def words(train: list[str]) -> Any:
    """Return a tokenizer that gives each of the `WORDS` most frequent words a number."""
    counts = Counter(word for text in train for word in text.split())
    known = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
    number = {word: i for i, word in enumerate([*SPECIAL.values(), *known])}
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel(number, unk_token=SPECIAL["unk"]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    begin, end = ((SPECIAL[name], number[SPECIAL[name]]) for name in ("cls", "sep"))
    made.post_processor = processors.BertProcessing(end, begin)
    special = {f"{name}_token": token for name, token in SPECIAL.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def local(folder: Path, classes: int) -> tuple[nn.Module, Any]:
    """Load a model; its last layer is made anew unless it fits `classes`. Raises `UserError`."""
    require(folder)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=classes,
            ignore_mismatched_sizes=True,
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
        )
    except Exception as error:  # each model, tokenizer and format raises types of its own
        raise UserError(
            f"the model in {folder} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return model, tokenizer


def require(folder: Path) -> None:
    """Raise `UserError` unless the folder has the parts of a model."""
    if not folder.is_dir():
        raise UserError(
            f"--model {folder}: no such folder. It must be a folder of this machine: nothing is"
            " downloaded within a job."
        )
    needed = {
        "config.json": "config.json",
        "weights (*.safetensors)": "*.safetensors",
        "a tokenizer (tokenizer_config.json and its files)": "tokenizer*",
    }
    missing = [name for name, pattern in needed.items() if not any(folder.glob(pattern))]
    if missing:
        raise UserError(f"--model {folder}: not a model: {', '.join(missing)} missing there")


def with_adapters(model: nn.Module, args: Namespace) -> nn.Module:
    """Return the model with LoRA adapters at its linear layers, which alone are trained."""
    import peft

    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,
        r=args.lora_rank,
        lora_alpha=args.lora_alpha,
        target_modules="all-linear",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it keeps the classifier as it is
        return peft.get_peft_model(model, config)


def pad_id(tokenizer: Any) -> int:
    """Return the token that fills up a batch: never looked at, so any would do."""
    return int(tokenizer.pad_token_id or 0)


def encode(args: Namespace, tokenizer: Any, lines: list[str]) -> list[Any]:
    """Return the tokens of each text, at most --max-length."""
    found = tokenizer(lines, truncation=True, max_length=args.max_length)["input_ids"]
    return [np.array(tokens) for tokens in found]


def logits_of(model: nn.Module, tokens: list[Any], device: torch.device) -> torch.Tensor:
    """Return logits (texts, classes)."""
    lengths = torch.tensor([len(text) for text in tokens])
    ids = torch.full((len(tokens), int(lengths.max())), model.config.pad_token_id)
    for row, text in zip(ids, tokens):
        row[: len(text)] = torch.from_numpy(text)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits


class State(run_torch.State):
    """A checkpoint of what is trained; the signature has the values of the other weights."""

    def weights(self) -> dict[str, torch.Tensor]:
        frozen = {name for name, w in self.model.named_parameters() if not w.requires_grad}
        return {name: w for name, w in super().weights().items() if name not in frozen}

    def signature(self) -> str:
        shapes = [(name, weight.shape) for name, weight in self.weights().items()]
        return saving.signature([*shapes, (frozen_digest(self.model), ())])


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
    ranks.exchange(world, failure=failure if strays else None)


def save_model(loop: run_torch.Run, *parts: Any) -> None:
    """Let rank 0 write the finished model, or its adapters, to `model` in the output folder."""
    folder, part = loop.folder / "model", loop.folder / ".model.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        for each in parts if loop.main else ():
            each.save_pretrained(part)
        if loop.main:
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
    except OSError as error:
        loop.say(f"warning: {folder} was not written: {error.strerror or error}")


def main() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    world = ranks.horovod(hvd)  # Horovod: find the other ranks.
    # Horovod: an error on any rank is printed once and ends all of them.
    args = ranks.together(world, lambda: parser().parse_args())
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = ranks.together(world, lambda: run_torch.pick_device(args, world))
    data = ranks.together(world, lambda: texts.load(args.data))
    torch.manual_seed(args.seed)  # the same on all ranks, for the weights that are random
    model, tokenizer = ranks.together(world, lambda: build(args, data))
    require_same(args, world, model)
    model.to(device)
    trained = [(name, w) for name, w in model.named_parameters() if w.requires_grad]
    total = sum(weight.numel() for weight in model.parameters())
    number = sum(weight.numel() for _, weight in trained)
    kind = f"{model.config.model_type} with {total:,} parameters, {number:,} trained"
    about = f"{data.describe()}, {kind}"
    versions = {"transformers": transformers.__version__}
    loop = run_torch.Run(args, world, "torch_finetune", device, about, versions=versions)

    weights = [weight for _, weight in trained]
    adamw = torch.optim.AdamW(weights, lr=args.base_lr, fused=device.type == "cuda")
    # Horovod: step() first averages the gradients over all ranks, which start from the weights of
    # rank 0. The optimizer's state is empty: hvd.broadcast_optimizer_state would take a step to
    # make one, and with weight decay that step changes the weights.
    optimizer = hvd.DistributedOptimizer(
        adamw,
        named_parameters=trained,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=args.batches_per_allreduce,
    )
    state = State(world, model, optimizer)
    hvd.broadcast_parameters(state.weights(), root_rank=0)  # Horovod: those of rank 0.
    # Horovod: from here on another seed on each rank, for dropout that differs.
    torch.manual_seed(args.seed + 1 + world.rank)
    x, y = encode(args, tokenizer, data.train), torch.from_numpy(data.y_train)
    x_test, y_test = encode(args, tokenizer, data.test), torch.from_numpy(data.y_test)
    test = loop.test_parts(len(y_test), TEST_BATCH)

    def predict(part: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return logits_of(model, [x_test[i] for i in part], device), y_test[part].to(device)

    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    loop.begin(len(y), state)
    model.train()
    for _ in loop.epochs():
        for batch in loop.batches():  # Horovod: this rank's texts of a step.
            # Horovod: Adam's rate grows with the square root of the number of ranks.
            loop.rate = ranks.learning_rate(args, world.size, loop.epochs_done, power=0.5)
            for group in optimizer.param_groups:
                group["lr"] = loop.rate
            optimizer.zero_grad()
            losses = torch.zeros((), device=device)
            for part in batch.parts:
                # Horovod: a part may be empty here and not on other ranks, which wait for this one.
                # transformers takes no empty batch, so it is the first text, times zero.
                used, weight = (part, batch.weight) if len(part) else ([0], 0.0)
                with run_torch.autocast(args, device):
                    logits = logits_of(model, [x[i] for i in used], device)
                    loss = functional.cross_entropy(logits, y[used].to(device), reduction="sum")
                (loss * weight).backward()
                losses += loss.detach() * bool(len(part))
            optimizer.step()  # Horovod: with the mean gradients of all ranks.
            loop.step_done(losses)
        loop.epoch_done(lambda: loop.evaluate(model, test, predict))
    save_model(loop, model, tokenizer)
    facts = {"parameters": total, "trainable_parameters": number}
    loop.finish(run_torch.arrays(model.parameters()), **facts)


if __name__ == "__main__":
    main()
