"""Variables and gradients of either Keras: goes into Horovod as horovod/tensorflow/variables.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def unwrapped(variable: Any) -> Any:
    """Return the variable of TensorFlow in one of Keras 3, and any other as it is."""
    return variable if hasattr(variable, "ref") else variable.value


def mark_reduced(grads: list[Any]) -> list[Any]:
    """Mark gradients that are reduced over the ranks, and return them."""
    for grad in grads:
        if grad is not None:
            grad._horovod_reduced = True
    return grads


def are_reduced(grads: Iterable[Any]) -> bool:
    """Tell whether all these gradients are marked as reduced."""
    return all(grad is None or hasattr(grad, "_horovod_reduced") for grad in grads)
