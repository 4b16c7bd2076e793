"""Synthetic text for the language model: cheap to make, and its entropy is known exactly.

Each token follows from the one `LAG` places before it: one of a few successors, with fixed
probabilities. With a lag of 2 a model must attend to the right earlier place; looking at the last
token alone teaches it nothing. So a loss near `floor` proves that a transformer has learned.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 64
LAG = 2
#: Chances of a token's four successors; their entropy is 0.91 nats, that of chance is 4.16.
CHANCES = (0.7, 0.15, 0.1, 0.05)


def successors() -> NDArray[np.int64]:
    """Return the language itself: for each token its possible successors, likeliest first."""
    generator = np.random.default_rng(0)
    rows = [generator.permutation(VOCABULARY)[: len(CHANCES)] for _ in range(VOCABULARY)]
    return np.stack(rows)


def sample(count: int, length: int, part: int) -> NDArray[np.int64]:
    """Return `count` sequences of `length` tokens, always the same; another `part`, other ones."""
    table, generator = successors(), np.random.default_rng([1, part])
    text = generator.integers(VOCABULARY, size=(count, length))
    which = generator.choice(len(CHANCES), size=(count, length), p=CHANCES)
    for place in range(LAG, length):
        text[:, place] = table[text[:, place - LAG], which[:, place]]
    return text


def floor(length: int) -> float:
    """Return the least mean loss, in nats per token, when all but a sequence's first are guessed.

    The first `LAG` tokens follow from nothing: the guess of those costs ln(VOCABULARY).
    """
    entropy = -sum(chance * math.log(chance) for chance in CHANCES)
    free = LAG - 1
    return (free * math.log(VOCABULARY) + (length - LAG) * entropy) / (length - 1)
