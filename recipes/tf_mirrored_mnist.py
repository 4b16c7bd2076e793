"""Train a small convolutional network on digits, with TensorFlow's MultiWorkerMirroredStrategy.

The comparison for `tf_mnist`: the same network, data, options and results, but the gradients are
exchanged by tf.distribute.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_mirrored_mnist -- --epochs 5
    python -m recipes.tf_mirrored_mnist     (several ranks: each with its own TF_CONFIG)

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). What is distributed in this file is marked `# Mirrored:`.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Before the import, which reads them; see tf_mnist.py.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from recipes import common, mnist, options, tf_checkpoint, tf_run
from recipes.tf_world import World

MOMENTUM = 0.9


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    horovods = options.without_horovod("tf.distribute", "fp16_allreduce")
    not_here = {**horovods, "workers": "the data is in memory"}
    about = "Train a small network on digits, with tf.distribute."
    parser = options.Parser("tf_mirrored_mnist", about, not_here)
    options.add_common(parser, epochs=16, batch_size=32, base_lr=0.05, warmup=3)
    parser.add_argument("--dropout", type=options.fraction, default=0.5, help="share of zeros")
    return parser


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
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    world = World()  # Mirrored: find the other ranks.
    # Mirrored: each rank takes a GPU of its own, if there are any.
    args, device = tf_run.start(world, lambda: parser().settings(argv))
    # Mirrored: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(world, lambda: mnist.load(args.data))
    run = Run(args, world, "tf_mirrored_mnist", device, about=data.describe())
    run.finish(train(run, data), exchange="mirrored")
    world.shutdown()  # Mirrored: leave together,
    common.leave(0)  # and at once: TensorFlow's way out waits for other ranks.


class Run(tf_run.Run):
    """A run whose steps are those of a replica of the strategy."""

    def average(self, gradients: Sequence[Any]) -> list[Any]:
        """Return this rank's part of the mean. In the compiled step."""
        # Mirrored: Keras' optimiser takes the sum over all replicas.
        return [gradient / self.hvd.size() for gradient in gradients]

    def compile(self, *what: Any) -> None:
        """Compile a step, as `tf_run.Run` does, for the strategy to run."""
        super().compile(*what)
        self.train_on, self.one_pass = self._run(self.train_on), self._run(self.one_pass)

    def _run(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # Mirrored: in each replica, of which a rank has one.
        return lambda *args: self.hvd.strategy.run(function, args=args)


def train(run: Run, data: mnist.Digits) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    # Mirrored: each rank learns from its own share, by its number among all ranks.
    shards = run.deal(len(data.y_train))
    model, optimizer = prepare(run, data)
    compile_step(run, model, optimizer, data)
    # Mirrored: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(tf_checkpoint.of_keras_3(run.hvd, model, optimizer), shards)

    def guess(part: common.Indices) -> tuple[tf.Tensor, NDArray[np.int64]]:
        return model(tf.constant(data.x_test[part]), training=False), data.y_test[part]

    for _ in run.epochs():
        for _ in run.batches():
            # Mirrored: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(run.args, run.hvd.size(), run.epochs_done))
            # Mirrored: a part may be empty here and not on other ranks, which wait for this one.
            run.step(lambda part: (data.x_train[part], data.y_train[part]))
        run.epoch_done(lambda: run.evaluate(len(data.y_test), guess))
    return model


def prepare(run: Run, data: mnist.Digits) -> tuple[tf.keras.Model, tf.keras.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    args = run.args
    tf.keras.utils.set_random_seed(args.seed)
    # Mirrored: all ranks start from the variables of rank 0, which are made under the strategy.
    with run.hvd.strategy.scope():
        model = network(args, data)
        optimizer = tf_run.scaled(args, tf.keras.optimizers.SGD(args.base_lr, momentum=MOMENTUM))
        optimizer.build(model.trainable_variables)
    # Mirrored: from here on another seed on each rank, for dropout that differs.
    tf_checkpoint.draw_apart(args, run.hvd, tf_checkpoint.seeds(model))
    return model, optimizer


def compile_step(
    run: Run, model: tf.keras.Model, optimizer: tf.keras.Optimizer, data: mnist.Digits
) -> None:
    """Compile a step of training: one graph for all batches, the short one of an epoch too."""

    def backward(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf_run.losses(model(x, training=True), y))
            goal = run.goal(optimizer, loss * weight)
        gradients = tape.gradient(goal, [v.value for v in model.trainable_variables])
        return [loss * tf.sign(weight), *gradients]  # without weight: a sample for an empty part

    images = tf.TensorSpec([None, data.height, data.width], tf.float32)
    # Mirrored: the optimiser sums the gradients of all ranks.
    run.compile(model, optimizer, backward, [images, tf.TensorSpec([None], tf.int64)])


if __name__ == "__main__":
    main()
