"""A small causal transformer in PyTorch: the model of `torch_lm` and `torch_fsdp_lm`.

It is apart from them, since `torch_fsdp_lm` runs where there is no Horovod.
"""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional


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


def guess(
    model: nn.Module, text: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Guess each next token of `text`; return all guesses in one row, and the true tokens."""
    given = torch.from_numpy(text).to(device)
    return model(given[:, :-1]).flatten(0, 1), given[:, 1:].flatten()
