"""Whether models are the same: on all ranks, and in a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def digest(arrays: Iterable[NDArray[Any]]) -> str:
    """Return a checksum of the weights, equal only if every bit is."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def assert_identical(digests: Sequence[str]) -> None:
    """Raise `RuntimeError` naming the ranks whose weights are not those of rank 0."""
    strays = [str(rank) for rank, found in enumerate(digests) if found != digests[0]]
    if strays:
        raise RuntimeError(
            f"the ranks trained different models: the weights of rank {', '.join(strays)} differ "
            f"from those of rank 0 (of {len(digests)} ranks). The usual causes: a variable that "
            "was not broadcast before the first step, or gradients applied without an allreduce."
        )


def signature(shapes: Iterable[tuple[str, Sequence[int]]]) -> str:
    """Return a checksum of the names and shapes of a model's weights."""
    text = "\n".join(f"{name} {tuple(shape)}" for name, shape in shapes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
