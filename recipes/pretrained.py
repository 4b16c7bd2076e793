"""A transformer that classifies texts, and its tokenizer: local weights or a small random model.

Nothing is ever fetched: transformers is told that there is no network before it is imported, which
is why that happens in a function here. A model is a folder as `save_pretrained` writes it:
config.json, *.safetensors and the files of a tokenizer.
"""

from __future__ import annotations

import os
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from recipes import common
from recipes.common import UserError
from recipes.texts import Texts

# The random model: 0.1 million weights, and the most frequent words of the training texts.
# Nothing is dropped: so small a model does not learn by heart.
SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "max_position_embeddings": 512, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
WORDS = 8000
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}
Tokens = list[NDArray[np.int64]]


def library() -> Any:
    """Return transformers, imported without a network and told to be quiet."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the ranks of a node share its cores
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def build(args: Namespace, data: Texts) -> tuple[nn.Module, Any]:
    """Return model and tokenizer for the classes of `data`; `--lora` adds adapters.

    Raises `UserError` naming what is missing in the folder of `--model`, or cannot be read.
    """
    if args.model:
        model, tokenizer = local(Path(args.model), data.classes)
    else:
        model, tokenizer = small(data)
    if model.config.pad_token_id is None:  # models of GPT's kind; without one: one text at a time
        model.config.pad_token_id = pad_id(tokenizer)
    return (adapted(model, args.lora_rank, args.lora_alpha) if args.lora else model), tokenizer


def small(data: Texts) -> tuple[nn.Module, Any]:
    """Return a small random BERT, and a tokenizer with the words of the training texts."""
    transformers, tokenizer = library(), words(data.train)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), num_labels=data.classes, pad_token_id=pad_id(tokenizer),
        **SMALL,
    )  # fmt: skip
    return transformers.AutoModelForSequenceClassification.from_config(config), tokenizer


def words(texts: list[str]) -> Any:
    """Return a tokenizer that gives each of the `WORDS` most frequent words a number."""
    counts = Counter(word for text in texts for word in text.split())
    known = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
    number = {word: i for i, word in enumerate([*SPECIAL.values(), *known])}
    transformers = library()
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
    transformers = library()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=classes, ignore_mismatched_sizes=True,
            local_files_only=True, use_safetensors=True, dtype=torch.float32,
        )  # fmt: skip
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


def adapted(model: nn.Module, rank: int, alpha: float) -> nn.Module:
    """Return the model with LoRA adapters at its linear layers; only they and the last learn."""
    library()
    import peft

    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS, r=rank, lora_alpha=alpha, target_modules="all-linear"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it keeps the last layer as it is
        return peft.get_peft_model(model, config)


def pad_id(tokenizer: Any) -> int:
    """Return the token that fills up a batch: never looked at, so any would do."""
    return int(tokenizer.pad_token_id or 0)


def encode(tokenizer: Any, texts: list[str], length: int) -> Tokens:
    """Return the tokens of each text, at most `length`."""
    found = tokenizer(texts, truncation=True, max_length=length)["input_ids"]
    return [np.array(tokens) for tokens in found]


def padded(tokens: Tokens, filler: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Return a batch for the model: (texts, longest) tokens, and where they are not `filler`."""
    lengths = torch.tensor([len(text) for text in tokens])
    ids = torch.full((len(tokens), int(lengths.max())), filler)
    for row, text in zip(ids, tokens):
        row[: len(text)] = torch.from_numpy(text)
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return {"input_ids": ids.to(device), "attention_mask": mask.long().to(device)}


class Learning:
    """The part of a model that learns, with the interface of a module's state."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.frozen = {n: w for n, w in model.named_parameters() if not w.requires_grad}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the weights that learn; changing them changes the model."""
        return {n: w for n, w in self.model.state_dict().items() if n not in self.frozen}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take over these weights; the others stay."""
        self.model.load_state_dict(state, strict=False)

    def digest(self) -> str:
        """Return a checksum of the weights that do not learn."""
        return common.digest(weight.detach().cpu().numpy() for weight in self.frozen.values())
