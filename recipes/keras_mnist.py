"""Train a small convolutional network on handwritten digits, with Keras' `fit` and Horovod.

For those who use `model.fit`: Horovod's optimiser and its four callbacks do what `tf_mnist.py` has
written out. They need Keras 2 (TensorFlow up to 2.15, later the package tf-keras): under Keras 3
they run, and leave out the exchange of gradients without a word, so this trainer refuses that.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks. `fit` gives each batch of each rank the same weight, so all
must be of one size: an epoch leaves out the rest, after its last whole step, other ones each time.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 keras_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.keras_mnist
    python -m recipes.keras_mnist

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

import importlib.util
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Before the import, which reads them. TensorFlow's notes would drown rank 0's lines.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1" if importlib.util.find_spec("tf_keras") else "0")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import tensorflow as tf

from recipes import common, mnist, options, tf_checkpoint, tf_run

MOMENTUM = 0.9


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    not_here = {
        "workers": "the data is in memory",
        "amp": "Horovod's optimiser knows nothing of Keras' loss scaling; --bf16 needs none",
        "adasum": "Horovod's optimiser for Keras has means only",
        "batches_per_allreduce": (
            "each batch is a step for fit; a larger --batch-size does the same"
        ),
    }
    about = "Train a small network on handwritten digits with fit."
    parser = options.Parser("keras_mnist", about, not_here)
    options.add_common(parser, epochs=16, batch_size=32, base_lr=0.05, warmup=3)
    add = parser.add_argument
    add("--dropout", type=options.fraction, default=0.5, help="share of zeros")
    add("--schedule", choices=options.SCHEDULES, default="constant", help="how the rate falls")
    return parser


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line; raise `UserError` for what is wrong in it."""
    args = parser().settings(argv)
    if args.warmup_epochs % 1:
        raise common.UserError("--warmup-epochs: Horovod's callback knows whole epochs only")
    return args


def refuse_keras_3() -> None:
    """Raise `UserError` if the Keras in force is one with which Horovod would not reduce."""
    version = getattr(tf.keras, "__version__", "2")  # tf-keras has none there
    if int(version.partition(".")[0]) < 3:
        return
    raise common.UserError(
        f"Keras {version} is in force: with it model.fit runs, but Horovod exchanges no gradients, "
        "and each rank would train a model of its own.\n"
        "Unset TF_USE_LEGACY_KERAS (or set it to 1), and have Keras 2: pip install tf-keras\n"
        "With Keras 3 use tf_mnist."
    )


def network(args: Namespace, data: mnist.Digits) -> tf.keras.Model:
    """Build the model, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((data.height, data.width)),
            layers.Reshape((data.height, data.width, 1)),  # one channel
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(args.dropout),
            layers.Dense(data.classes),
            layers.Activation("linear", dtype="float32"),  # the loss wants that with --bf16 too
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = tf_run.start(hvd, lambda: settings(argv))
    # Horovod: an error on any rank stops all of them, with one message.
    common.on_all_ranks(hvd, refuse_keras_3)
    data = common.on_all_ranks(hvd, lambda: mnist.load(args.data))
    run = Run(args, hvd, "keras_mnist", device, about=data.describe())
    run.finish(train(run, data))
    hvd.shutdown()  # Horovod: leave together.


def train(run: Run, data: mnist.Digits) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    args = run.args
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.y_train), whole_steps=True)
    model, random = prepare(args, data)
    optimizer = model.optimizer
    same = {v.name: v for v in [*model.variables, *optimizer.variables, optimizer.learning_rate]}
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(tf_checkpoint.State(hvd, same, {}, random), shards)
    skipped = {run.loop.epoch - 1: run.loop.taken // shards.per_step}

    def guess(part: common.Indices) -> tuple[tf.Tensor, NDArray[np.int64]]:
        return model(tf.constant(data.x_test[part])), data.y_test[part]

    called = [*callbacks(args, shards, skipped), Recorder(run)]
    # A call of fit for each epoch, because the first and the last one may be parts of epochs.
    for epoch in run.epochs():
        model.fit(
            batches(data, shards, epoch, run.loop.taken),
            steps_per_epoch=run.loop.steps_of_epoch(),
            initial_epoch=epoch - 1, epochs=epoch, callbacks=called, verbose=0,
        )  # fmt: skip
        run.rate = float(optimizer.learning_rate)
        run.epoch_done(lambda: run.evaluate(len(data.y_test), guess))
    return model


def prepare(args: Namespace, data: mnist.Digits) -> tuple[tf.keras.Model, dict[str, Any]]:
    """Build and compile the model, equal on all ranks; return it and its random states."""
    tf.get_logger().setLevel("ERROR")  # it warns of callbacks that take long, such as a broadcast
    tf.keras.backend.experimental.enable_tf_random_generator()  # whose states can be saved
    tf.keras.utils.set_random_seed(args.seed)
    model = network(args, data)
    # Horovod: the rate grows with the number of ranks. XLA, Keras' default on GPUs, knows no
    # Horovod: so no jit_compile.
    rate = args.base_lr * hvd.size()
    optimizer = tf.keras.optimizers.SGD(rate, momentum=MOMENTUM, jit_compile=False)
    # Horovod: this optimiser first averages the gradients over all ranks.
    optimizer = hvd_keras.DistributedOptimizer(
        optimizer,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        gradient_predivide_factor=args.gradient_predivide_factor,
    )
    optimizer.build(model.trainable_variables)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    dropouts = [one for one in model.layers if isinstance(one, tf.keras.layers.Dropout)]
    # Keras has no public name for them.
    random = {layer.name: layer._random_generator._generator.state for layer in dropouts}
    # Horovod: from here on another seed on each rank, for dropout that differs.
    tf_checkpoint.draw_apart(args, hvd, random)
    return model, random


def callbacks(args: Namespace, shards: common.Shards, skipped: dict[int, int]) -> list[Any]:
    # Horovod: the rate for all ranks, which the warm-up reaches and the schedule falls from.
    rate = args.base_lr * hvd.size()
    # Momentum is a mere number in optimisers since Keras 2.11: the callbacks cannot correct it.
    common_to_both = {"initial_lr": rate, "momentum_correction": False}
    warmup = Warmup(
        warmup_epochs=int(args.warmup_epochs), steps_per_epoch=shards.steps, **common_to_both
    )
    schedule = hvd_keras.callbacks.LearningRateScheduleCallback(
        multiplier=lambda epoch: common.decay(args.schedule, epoch / args.epochs),
        start_epoch=int(args.warmup_epochs),
        **common_to_both,
    )
    warmup.skipped = skipped
    return [
        # Horovod: after the first step all ranks go on with the weights of rank 0.
        hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0),
        # Horovod: losses become means over all ranks, for the callbacks that come after this one.
        hvd_keras.callbacks.MetricAverageCallback(),
        warmup,
        schedule,
    ]


class Warmup(hvd_keras.callbacks.LearningRateWarmupCallback):  # type: ignore[misc]
    """Horovod's warm-up, for a first epoch too of which some steps are done already."""

    skipped: dict[int, int]  # steps by epoch, counted from 0 like Keras' epochs

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Set the rate for a batch."""
        super().on_batch_begin(batch + self.skipped.get(self.current_epoch, 0), logs)


class Run(tf_run.Run):
    """The run's record, for losses that `fit` tells as numbers of Python."""

    def scalar(self, value: float) -> float:
        return value


class Recorder(tf.keras.callbacks.Callback):  # type: ignore[misc]  # not there for mypy
    """Tells the run of each step, which saves, and stops all ranks in the same one."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin to count what this call of `fit` does."""
        self.batches = self.run.batches()
        self.loss_sum, self.seen = 0.0, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Note the samples of the step."""
        next(self.batches)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step; `logs` has the mean loss of all steps since `fit` was called."""
        self.seen += self.run.batch.own
        loss = logs["loss"] * self.seen - self.loss_sum
        self.loss_sum += loss
        # Horovod: all ranks stop in the same step, whichever of them was asked to.
        flags = self.run.exchange(self.run.flags(), tf.constant(loss, tf.float32))
        self.run.step_done(loss, stop=self.run.agreed(flags, loss))


def batches(
    data: mnist.Digits, shards: common.Shards, epoch: int, taken: int
) -> Iterator[tuple[Any, Any]]:
    """Yield the images and labels of this rank's batches, from within an epoch on."""
    for batch in shards.batches(epoch, taken):
        yield data.x_train[batch.parts[0]], data.y_train[batch.parts[0]]


if __name__ == "__main__":
    main()
