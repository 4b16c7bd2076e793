"""Horovod for Keras 3: goes into Horovod as horovod/_keras/keras3.py.

Keras 3's optimizers have none of the methods in which Horovod exchanges gradients under Keras 2.
`fit` and `apply_gradients` call `Optimizer.apply`: a subclass, made on the spot, averages there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod._keras.both import FirstStep, say
from horovod.tensorflow.variables import are_reduced, unwrapped
from tensorflow.python.ops import control_flow_util

NO_XLA = "XLA cannot compile Horovod's operations"


class CallableList(list):  # type: ignore[type-arg]
    """For `optimizer.variables` and Keras 2's `optimizer.variables()`."""

    def __call__(self) -> CallableList:
        return self


class Exchange:
    """What a distributed optimizer exchanges; no part of what Keras tracks and saves."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.settings = dict(settings)
        self.groups = self.settings.pop("groups")
        self.scale_local_gradients = self.settings.pop("scale_local_gradients")
        self.process_set = settings["process_set"]
        self.local: dict[Any, Any] = {}
        self.first_step = FirstStep(name, self.process_set)
        self.averaged = False  # while a loss-scaling optimizer applies what it has averaged

    def average(self, grads: Iterable[Any], variables: list[Any], state: list[Any]) -> list[Any]:
        """Return the gradients averaged over the ranks, which begin with equal weights."""
        if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
            raise ValueError(f"{NO_XLA}: leave out jit_compile=True, or set jit_compile=False")
        grads = list(grads)
        if self.averaged or are_reduced(grads):
            return grads
        variables = [unwrapped(variable) for variable in variables]
        of_all = [v for v in variables if v.ref() not in self.local]
        if not self.local:  # of whose variables the state has parts, too
            of_all += [unwrapped(variable) for variable in state]
        self.first_step.equalize(of_all)
        factor = 1 / self.process_set.size() if self.scale_local_gradients else 1
        result = [scaled(grad, factor) for grad in grads]
        shared = [i for i, v in enumerate(variables) if v.ref() not in self.local]
        shared = [i for i in shared if grads[i] is not None]
        for part, groups in self._parts(variables, shared):
            reduce = hvd._make_allreduce_grads_fn(self.name, groups=groups, **self.settings)
            # Names of our own: a layer of one rank more would change those of TensorFlow.
            named = [identity(grads[i], f"{self.name}_grad_{i}") for i in part]
            for i, grad in zip(part, reduce(named, [variables[i] for i in part])):
                result[i] = grad
        return result

    def _parts(self, variables: list[Any], shared: list[int]) -> list[tuple[list[int], int | None]]:
        """Return indices of gradients to be exchanged, with the number of groups to form of them.

        Horovod finds a group's gradients by the variables' names, which Keras 3 repeats.
        """
        if not isinstance(self.groups, list):
            return [(shared, self.groups)] if shared else []
        index = {variables[i].ref(): i for i in shared}
        parts: list[tuple[list[int], int | None]] = []
        for group in self.groups:
            found = [index.pop(unwrapped(v).ref(), None) for v in group]
            if part := [i for i in found if i is not None]:
                parts.append((part, 1))
        return [*parts, (sorted(index.values()), None)] if index else parts


def scaled(grad: Any, factor: float) -> Any:
    """Return a gradient, which may be sparse or None, multiplied by a number."""
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
    return None if grad is None else grad * factor


def identity(grad: Any, name: str) -> Any:
    """Return a gradient, which may be sparse, under a name."""
    if isinstance(grad, tf.IndexedSlices):
        values, indices = tf.identity(grad.values, name), tf.identity(grad.indices, f"{name}_at")
        return tf.IndexedSlices(values, indices, grad.dense_shape)
    return tf.identity(grad, name)


def exchange_of(optimizer: Any) -> Exchange | None:
    """Return the exchange of a distributed optimizer or of the one that a loss scale wraps."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return getattr(optimizer, "_horovod_exchange", None) or getattr(
        inner, "_horovod_exchange", None
    )


def distributed(optimizer: Any, name: str | None, **settings: Any) -> Any:
    """Return a new optimizer like this one, which averages gradients before it applies them."""
    del settings["keras"]  # the module for Keras 2
    keras = sys.modules["keras"]
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise ValueError(f"Horovod's optimizer needs KERAS_BACKEND=tensorflow, not {backend}")
    refuse_accumulation(optimizer, settings.pop("backward_passes_per_step"))
    del settings["average_aggregated_gradients"]
    base = type(optimizer)
    if hasattr(optimizer, "_horovod_exchange"):
        base = base.__bases__[0]
    made = distributed_class(keras, base, name or f"Distributed{base.__name__}", settings)
    watch_compile(owner(keras.Model, "jit_compile"))
    watch_loss_scale(keras.optimizers.LossScaleOptimizer)
    return made.from_config(optimizer.get_config())


def refuse_accumulation(optimizer: Any, passes: int) -> None:
    """Raise ValueError for `backward_passes_per_step`, which Keras 3 has under another name."""
    if passes > 1:
        raise ValueError(
            f"backward_passes_per_step={passes} is for Keras 2. Keras 3 accumulates gradients:"
            f" {type(optimizer).__name__}(..., gradient_accumulation_steps={passes})"
        )


def distributed_class(keras: Any, base: Any, name: str, settings: dict[str, Any]) -> Any:
    """Return the subclass, which is saved as its base: models load without Horovod."""

    class Distributed(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._horovod_exchange = Exchange(name, settings)

        @property
        def variables(self) -> CallableList:
            return CallableList(super().variables)

        def register_local_var(self, variable: Any) -> None:
            """Leave this variable out: each rank keeps its own, and its own gradient."""
            variable = unwrapped(variable)
            self._horovod_exchange.local[variable.ref()] = variable

        def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
            variables = list(trainable_variables or self._trainable_variables)
            grads = self._horovod_exchange.average(grads, variables, self.variables)
            return super().apply(grads, trainable_variables and variables)

    public = getattr(keras.optimizers, base.__name__, None) is base
    Distributed.__module__ = "keras.optimizers" if public else base.__module__
    Distributed.__name__ = keras.saving.get_registered_name(base)
    Distributed.__qualname__ = Distributed.__name__
    return Distributed


def owner(model: Any, name: str) -> Any:
    """Return the class that defines this, which is not `keras.Model` itself."""
    return next(base for base in model.__mro__ if name in vars(base))


def replace_once(owned_by: Any, method: str, new: Callable[[Any], Any]) -> None:
    """Put a wrapper around a method of Keras', unless it is there."""
    original = getattr(owned_by, method)
    if not hasattr(original, "_of_horovod"):
        wrapper: Any = functools.wraps(original)(new(original))
        wrapper._of_horovod = True
        setattr(owned_by, method, wrapper)


def watch_compile(trainer: Any) -> None:
    """Let `compile` with a distributed optimizer choose no XLA, and refuse it by name.

    In `model.compile(DistributedOptimizer(...))` Python looks up `compile` first: so what it calls
    is replaced.
    """

    def watching(original: Any) -> Any:
        def _resolve_auto_jit_compile(self: Any) -> bool:
            if exchange_of(self.optimizer) and original(self):
                say(f"jit_compile='auto' means False here: {NO_XLA}")
                return False
            return bool(original(self))

        return _resolve_auto_jit_compile

    replace_once(trainer, "_resolve_auto_jit_compile", watching)
    chosen = trainer.jit_compile
    if not hasattr(chosen.fset, "_of_horovod"):

        def choose(self: Any, value: Any) -> None:
            if value and exchange_of(self.optimizer):
                raise ValueError(f"compile(jit_compile=True): {NO_XLA}. Leave out jit_compile")
            chosen.fset(self, value)

        choose._of_horovod = True  # type: ignore[attr-defined]
        trainer.jit_compile = property(chosen.fget, choose)


def watch_loss_scale(loss_scale: Any) -> None:
    """Let a loss scale that wraps a distributed optimizer check the averaged gradients.

    It skips a step in which one is not finite: the ranks must agree, or those that do not skip it
    wait for the others forever. `compile` wraps the optimizer of a mixed_float16 model.
    """

    def watching(original: Any) -> Any:
        def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
            exchange = getattr(self.inner_optimizer, "_horovod_exchange", None)
            if exchange is None:
                return original(self, grads, trainable_variables)
            variables = list(trainable_variables or self._trainable_variables)
            grads = exchange.average(grads, variables, self.variables)
            exchange.averaged = True
            try:
                return original(self, grads, trainable_variables and variables)
            finally:
                exchange.averaged = False

        return apply

    replace_once(loss_scale, "apply", watching)


def load_model(keras: Any, wrap: Any, filepath: Any, custom_objects: Any) -> Any:
    """Load a model and make its optimizer, whose state is loaded, a distributed one."""
    model = keras.models.load_model(filepath, custom_objects=custom_objects)
    if getattr(model, "optimizer", None) is not None:
        wrapped = wrap(lambda: model.optimizer)()
        exchange = wrapped._horovod_exchange
        model.optimizer.__class__ = type(wrapped)
        model.optimizer._horovod_exchange = exchange
        if model.jit_compile:
            model.jit_compile = False
            say(f"the model's jit_compile=True means False here: {NO_XLA}")
    return model
