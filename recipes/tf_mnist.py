"""Train a small convolutional network on handwritten digits, with TensorFlow and Horovod.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.tf_mnist
    python -m recipes.tf_mnist

The loop is written out: under Keras 3 (TensorFlow 2.16 and newer) Horovod's Keras optimiser with
`model.fit` runs, but leaves out the exchange of gradients without a word (see keras_mnist.py).
Keras 3 wraps TensorFlow's variables; Horovod needs those inside: `v.value`.

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# the user's ~/.keras/keras.json says; and TensorFlow's notes would drown rank 0's lines (oneDNN's
# greeting heeds no level in 2.21).
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import tensorflow as tf

from recipes import common, mnist, options, tf_checkpoint, tf_run

MOMENTUM = 0.9


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    not_here = {"workers": "the data is in memory"}
    parser = options.Parser("tf_mnist", "Train a small network on handwritten digits.", not_here)
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
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = tf_run.start(hvd, lambda: parser().settings(argv))
    # Horovod: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(hvd, lambda: mnist.load(args.data))
    run = tf_run.Run(args, hvd, "tf_mnist", device, about=data.describe())
    run.finish(train(run, data))
    hvd.shutdown()  # Horovod: leave together.


def train(run: tf_run.Run, data: mnist.Digits) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.y_train))
    model, optimizer = prepare(run.args, data)
    compile_step(run, model, optimizer, data)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(tf_checkpoint.of_keras_3(hvd, model, optimizer), shards)

    def guess(part: common.Indices) -> tuple[tf.Tensor, NDArray[np.int64]]:
        return model(tf.constant(data.x_test[part]), training=False), data.y_test[part]

    for _ in run.epochs():
        for _ in run.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(run.args, hvd.size(), run.epochs_done))
            # Horovod: a part may be empty here and not on other ranks, which wait for this one.
            run.step(lambda part: (data.x_train[part], data.y_train[part]))
        run.epoch_done(lambda: run.evaluate(len(data.y_test), guess))
    return model


def prepare(args: Namespace, data: mnist.Digits) -> tuple[tf.keras.Model, tf.keras.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    tf.keras.utils.set_random_seed(args.seed)
    model = network(args, data)
    optimizer = tf_run.scaled(args, tf.keras.optimizers.SGD(args.base_lr, momentum=MOMENTUM))
    optimizer.build(model.trainable_variables)
    # Horovod: all ranks start from the weights and the optimiser state of rank 0.
    hvd.broadcast_variables([v.value for v in model.variables + optimizer.variables], root_rank=0)
    # Horovod: from here on another seed on each rank, for dropout that differs.
    tf_checkpoint.draw_apart(args, hvd, tf_checkpoint.seeds(model))
    return model, optimizer


def compile_step(
    run: tf_run.Run, model: tf.keras.Model, optimizer: tf.keras.Optimizer, data: mnist.Digits
) -> None:
    """Compile a step of training: one graph for all batches, the short one of an epoch too."""

    def backward(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf_run.losses(model(x, training=True), y))
            goal = run.goal(optimizer, loss * weight)
        gradients = tape.gradient(goal, [v.value for v in model.trainable_variables])
        return [loss * tf.sign(weight), *gradients]  # without weight: a sample for an empty part

    images = tf.TensorSpec([None, data.height, data.width], tf.float32)
    # Horovod: the optimiser gets the mean of the gradients over all ranks.
    run.compile(model, optimizer, backward, [images, tf.TensorSpec([None], tf.int64)])


if __name__ == "__main__":
    main()
