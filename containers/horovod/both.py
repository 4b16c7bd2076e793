"""Keras 2 and Keras 3 for Horovod: goes into Horovod as horovod/_keras/both.py.

TensorFlow's tf.keras is Keras 3, or with TF_USE_LEGACY_KERAS=1 the package tf-keras, Keras 2. The
package keras is Keras 3. A script may use either, or both, with either of Horovod's two modules.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.variables import are_reduced, unwrapped


def is_keras_3(optimizer: Any) -> bool:
    """Tell whether this is an optimizer of Keras 3; Keras 2's tf-keras has its own classes."""
    keras: Any = sys.modules.get("keras")
    return is_version_3(keras) and isinstance(optimizer, keras.optimizers.Optimizer)


def is_version_3(keras: Any) -> bool:
    """Tell whether a module is Keras 3 or newer; TensorFlow's old one has no version."""
    return int(getattr(keras, "__version__", "2").partition(".")[0]) > 2


@functools.cache
def say(words: str) -> None:
    """Write one line into rank 0's log, once."""
    if not hvd.is_initialized() or hvd.rank() == 0:
        print(f"horovod.keras: {words}", file=sys.stderr, flush=True)


class FirstStep:
    """Lets all ranks take their first step from the weights of the first one.

    They are all there, since the gradients are reduced next. Elastic ranks have their states
    synchronized, and meet ranks that began earlier.
    """

    def __init__(self, name: str, process_set: Any) -> None:
        self.name = f"{name}_Begin"
        self.process_set = process_set
        self.begun: tf.Variable | None = None

    def equalize(self, variables: list[Any]) -> None:
        """Broadcast TensorFlow's variables, the first time that this is called or its graph run."""
        if int(os.environ.get("HOROVOD_ELASTIC", "0")) or not self.process_set.included():
            return
        if not tf.compat.v1.executing_eagerly_outside_functions():
            return
        if self.begun is None:
            with tf.init_scope(), tf.device("CPU:0"):
                self.begun = tf.Variable(False, trainable=False)
        begun = self.begun
        root = (self.process_set.ranks or [0])[0]

        def begin() -> tf.Tensor:
            hvd.broadcast_variables(variables, root, process_set=self.process_set)
            return begun.assign(True).read_value()

        if tf.executing_eagerly():
            if not begun.numpy():
                begin()
            return
        with tf.name_scope(self.name) as scope:

            def begin_in_scope() -> tf.Tensor:
                with tf.name_scope(scope):  # two optimizers' broadcasts differ in their names
                    return begin()

            tf.cond(begun, lambda: tf.constant(True), begin_in_scope)


def reduced(optimizer: Any, grads_and_vars: Any) -> list[Any]:
    """Return pairs with gradients that are averaged, unless they are already.

    Those of minimize() and of the helper for several backward passes are averaged before.
    """
    pairs = list(grads_and_vars)
    if optimizer._aggregated_gradients or optimizer._agg_helper:
        return pairs
    grads, variables = zip(*pairs)
    if are_reduced(grads):
        return pairs
    return list(zip(optimizer._allreduce(grads, variables), variables))


def reduced_for_helper(optimizer: Any, grads_and_vars: Any) -> Any:
    """Return pairs as the helper for several backward passes takes them: it has seen them."""
    if optimizer._aggregated_gradients:
        return grads_and_vars
    grads, variables = zip(*grads_and_vars)
    return list(zip(optimizer._allreduce(grads, variables), variables))


def variables_of(owner: Any) -> list[Any]:
    """Return TensorFlow's variables of a model or an optimizer, without the states of seeds.

    Ranks that share those drop the same units. Keras 2's optimizers have a method for a property.
    """
    variables = owner.variables
    if callable(variables):
        variables = variables()
    return [unwrapped(v) for v in variables if v.name != "seed_generator_state"]


def rate_of(optimizer: Any, backend: Any) -> float:
    """Return the learning rate that is in force."""
    if is_keras_3(optimizer):
        return float(optimizer.learning_rate.numpy())
    return backend.get_value(optimizer.lr)  # type: ignore[no-any-return]


def set_rate(optimizer: Any, backend: Any, rate: float) -> None:
    """Set the learning rate."""
    if is_keras_3(optimizer):
        optimizer.learning_rate = rate
    else:
        backend.set_value(optimizer.lr, rate)


def can_correct(optimizer: Any) -> bool:
    """Tell whether a callback can change the optimizer's momentum: numbers are fixed."""
    momentum = getattr(optimizer, "momentum", None)
    if not isinstance(momentum, (int, float)):
        return momentum is not None
    if momentum:
        say("the optimizer's momentum is a number: left as it is when the learning rate changes")
    return False


class OfBothKeras:
    """Callbacks of Keras 3's class under a model of tf-keras, which asks for what they do."""

    def _implements_train_batch_hooks(self) -> bool:
        return self._implements("train", True)

    def _implements_test_batch_hooks(self) -> bool:
        return self._implements("test", False)

    def _implements_predict_batch_hooks(self) -> bool:
        return self._implements("predict", False)

    def _implements(self, phase: str, otherwise: bool) -> bool:
        of_keras_2 = getattr(super(), f"_implements_{phase}_batch_hooks", None)
        return of_keras_2() if of_keras_2 else otherwise


class BroadcastsOfBothKeras(OfBothKeras):
    """The broadcast of weights. Keras 3 has built the model and its optimizer before it trains."""

    model: Any

    def on_train_begin(self, logs: Any = None) -> None:
        """Broadcast before the first batch, where this can be done."""
        if is_keras_3(self.model.optimizer) and self.model.built:
            self.on_batch_end(0)  # type: ignore[attr-defined]
