"""Watches Keras' optimizers for the exchange check: checksums of their variables at the end.

It also watches the variables of TensorFlow for which a GradientTape is asked: loops without an
optimizer train them.

A graph of TensorFlow runs Python once, when it is traced, so its steps cannot be counted.
"""

from __future__ import annotations

import math
import os
import sys
import zlib
from typing import Any, Callable

from .weights import END, FEW, KEPT_BYTES, MANY, OPTIMIZERS, VALUES, cpu_model, told_if_it_fails

LOCAL = "variables are local to a rank (register_local_var)"
LOOKS = 16  # at calls of tapes
SETS = "there are process sets of some of the ranks"


class Watch:
    """The watch of one process. `tell` sends the fields of a report."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell = tell
        self.trained: dict[int, tuple[Any, list[Any]]] = {}  # an optimizer, and its variables
        self.sources: dict[Any, tuple[Any, bytes]] = {}  # of tapes, and what they were
        self.tapes, self.bytes = 0, 0  # calls of tapes; bytes of what is kept
        self.told: dict[str, int] = {}  # steps
        os.register_at_fork(after_in_child=self.trained.clear)  # those are the parent's

    def built(self, optimizer: Any, variables: Any = (), **named: Any) -> None:
        """Note the variables of an optimizer, if they are small: they stay until the end."""
        trained = list(variables or next(iter(named.values()), ()))
        if len(self.trained) < OPTIMIZERS and _bytes(trained) < KEPT_BYTES:
            self.trained[id(optimizer)] = optimizer, trained

    def asked(self, tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> None:
        """Note the variables for which a tape is asked; in a graph's function that is once."""
        self.tapes += 1
        if self.tapes > LOOKS:
            return
        flatten = sys.modules["tensorflow"].nest.flatten
        for source in flatten(sources):
            if getattr(source, "trainable", False) and hasattr(source, "assign"):
                size = _bytes([source])
                if _identity(source) not in self.sources and self.bytes + size < KEPT_BYTES:
                    self.bytes += size
                    self.sources[_identity(source)] = source, _sample_now(source)

    def end(self) -> None:
        """Report the last weights."""
        trained: set[Any] = set()
        for number, (optimizer, variables) in enumerate(self.trained.values()):
            name = f"keras {number}"
            with told_if_it_fails(self.tell, name):
                steps = int(_array(optimizer.iterations))  # a MirroredVariable is no number
                trained |= {_identity(variable) for variable in variables if steps}
                self._report(name, optimizer, variables, steps)
        with told_if_it_fails(self.tell, "tape 0"):
            others = [source for key, source in self.sources.items() if key not in trained]
            moved = [variable for variable, before in others if before != _sample(variable)]
            self._report("tape 0", None, moved, self.tapes)

    def _report(self, name: str, optimizer: Any, variables: list[Any], steps: int) -> None:
        if not steps or not variables or self.told.get(name) == steps:
            return
        self.told[name] = steps
        arrays = [_array(variable) for variable in variables]
        count = max(1, VALUES // len(arrays))
        shapes = [(array.shape, str(array.dtype)) for array in arrays]
        self.tell(
            optimizer=name,
            step=END,
            steps=steps,
            last=(-1, steps),
            changed=False,
            may_differ=_may_differ(optimizer),
            shapes=zlib.crc32(repr(shapes).encode()),
            processor=cpu_model(),
            names=[str(getattr(variable, "path", variable.name)) for variable in variables],
            checksums=[zlib.crc32(_spread(array, MANY).tobytes()) for array in arrays],
            values=[_spread(array, min(count, FEW)).astype("float64").tolist() for array in arrays],
            facts={
                "library": "keras",
                "wrapped": _wrapped(optimizer),
                "tape": optimizer is None,
            },
        )


def _may_differ(optimizer: Any) -> str:
    """Return why variables may differ on purpose; Horovod's process sets are known as such only."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss scale
    exchange = getattr(inner, "_horovod_exchange", None)  # ours, of Keras 3
    if getattr(inner, "_local_vars", None) or getattr(exchange, "local", None):
        return LOCAL
    basics: Any = getattr(sys.modules.get("horovod.common.process_sets"), "_basics", None)
    try:
        return SETS if basics and len(basics._get_process_set_ids_and_ranks()) > 1 else ""
    except ValueError:  # these are another framework's, which is not initialized: Horovod 0.28
        return ""


def _array(variable: Any) -> Any:
    """Return the values as an array of NumPy: a variable of Keras 3, or of TensorFlow."""
    if hasattr(variable, "numpy"):
        return variable.numpy()
    return sys.modules["keras.src.backend"].convert_to_numpy(variable)


def _bytes(variables: list[Any]) -> int:
    return sum(
        4 * math.prod(int(length or 1) for length in variable.shape) for variable in variables
    )


def _identity(variable: Any) -> Any:
    """Return one identity for a variable of Keras 3 and for TensorFlow's variable in it."""
    inner = getattr(variable, "_value", None)
    inner = variable if inner is None else inner
    return getattr(inner, "_unique_id", id(inner))


def _sample_now(variable: Any) -> bytes:
    """Return some values; none while a graph is traced, which has no values."""
    eager = sys.modules["tensorflow"].executing_eagerly()
    return _sample(variable) if eager else b""


def _sample(variable: Any) -> bytes:
    return bytes(_spread(_array(variable), MANY).tobytes())


def _spread(array: Any, count: int) -> Any:
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // count)][:count]


def _wrapped(optimizer: Any) -> bool:
    """Whether Horovod has made the optimizer's class."""
    members = vars(type(optimizer)).values()
    return any(str(getattr(member, "__module__", "")).startswith("horovod") for member in members)
