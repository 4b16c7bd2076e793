"""Models and tokenizers of transformers that classify texts: a local one, or a small random one.

Nothing is downloaded.
"""

from __future__ import annotations

import os
import warnings
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn

# Before the import: nothing is downloaded, and the ranks of a node share its cores.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import transformers

from recipes import texts
from recipes.distributed import UserError

VERSIONS = {"transformers": transformers.__version__}
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


def build(args: Namespace, data: texts.Texts) -> tuple[nn.Module, Any]:
    """Return model and tokenizer for the classes of `data`; `--lora` adds adapters.

    Raises `UserError` naming what is missing in the folder of `--model`, or cannot be read.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
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

    tokenizer = Tokenizer(models.WordLevel(number, unk_token=SPECIAL["unk"]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    begin, end = ((SPECIAL[name], number[SPECIAL[name]]) for name in ("cls", "sep"))
    tokenizer.post_processor = processors.BertProcessing(end, begin)
    special = {f"{name}_token": token for name, token in SPECIAL.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def local(folder: Path, classes: int) -> tuple[nn.Module, Any]:
    """Load a model; its last layer is a new one unless it fits `classes`. Raises `UserError`."""
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
