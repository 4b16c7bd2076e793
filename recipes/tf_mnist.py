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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# the user's ~/.keras/keras.json says; and TensorFlow's notes would drown rank 0's lines (oneDNN's
# greeting heeds no level in 2.21).
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from recipes import common, mnist, tf_common

MOMENTUM = 0.9
EVALUATION_BATCH = 1000  # samples at once: bounds the memory, changes no result
NOT_HERE = {"workers": "the data is in memory"}


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("tf_mnist", "Train a small network on handwritten digits.")
    common.add_common(parser, epochs=16, batch_size=32, base_lr=0.05, warmup=3)
    parser.add_argument("--dropout", type=common.fraction, default=0.5, help="share of zeros")
    return common.parse(parser, argv, NOT_HERE)


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
    common.before_init(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: an error on any rank stops all of them, with one message.
    args, device = common.together(hvd, lambda: tf_common.with_device(settings(argv), hvd))
    data = common.together(hvd, lambda: mnist.load(args.data))
    versions = {"tensorflow": tf.__version__, "horovod": horovod.__version__}
    run = common.Run(args, hvd, "tf_mnist", device=device, versions=versions)
    run.introduce(data.describe())

    model = train(args, run, data)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.numpy() for weight in model.trainable_variables)
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    run.finish()
    hvd.shutdown()  # Horovod: leave together.


def prepare(args: Namespace, data: mnist.Digits) -> tuple[tf.keras.Model, tf.keras.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    tf.keras.utils.set_random_seed(args.seed)
    model = network(args, data)
    optimizer = tf_common.scaled(args, tf.keras.optimizers.SGD(args.base_lr, momentum=MOMENTUM))
    optimizer.build(model.trainable_variables)
    # Horovod: all ranks start from the weights and the optimiser state of rank 0.
    hvd.broadcast_variables([v.value for v in model.variables + optimizer.variables], root_rank=0)
    # Horovod: from here on another seed on each rank, for dropout that differs.
    tf_common.draw_apart(args, hvd, tf_common.seeds(model))
    return model, optimizer


def training_step(
    args: Namespace, model: tf.keras.Model, optimizer: tf.keras.Optimizer, data: mnist.Digits
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile a backward pass, and one step of training, which ends with such a pass."""

    def backward(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses(model(x, training=True), y))
            goal = tf_common.goal(args, optimizer, loss * weight)
        gradients = tape.gradient(goal, [v.value for v in model.trainable_variables])
        return [loss * tf.sign(weight), *gradients]  # without weight: a sample for an empty part

    def step(x: Any, y: Any, weight: Any, before: Any, flags: Any) -> tuple[tf.Tensor, tf.Tensor]:
        loss, *gradients = tf_common.add(before, one_pass(x, y, weight))
        # Horovod: the mean of the gradients over all ranks, and what ranks have to tell.
        gradients, flags = tf_common.exchange(args, hvd, gradients, loss, flags)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss, flags

    # One graph for all batches, the short one at the end of an epoch too.
    images = tf.TensorSpec([None, data.height, data.width], tf.float32)
    part = [images, tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.float32)]
    more = [tf_common.specification(args, model), tf.TensorSpec([2], tf.float32)]
    one_pass = tf.function(backward, part, autograph=False)
    return one_pass, tf.function(step, [*part, *more], autograph=False)


def losses(guesses: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the loss of each sample, in float32 whatever the model computes in."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(guesses, tf.float32))


def train(args: Namespace, run: common.Run, data: mnist.Digits) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.together(hvd, lambda: common.deal(args, hvd, len(data.y_train)))
    model, optimizer = prepare(args, data)
    one_pass, train_on = training_step(args, model, optimizer, data)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    course = run.resume(tf_common.state(hvd, model, optimizer), shards)
    # Horovod: all ranks stop in the same step, whichever of them was asked to.
    agreement = tf_common.Agreement(hvd, run)
    profile = tf_common.Profile(args, run)
    for epoch in course.epochs():
        loss_sum = tf.constant(run.loss_before())
        for batch in course.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            rate = common.learning_rate(args, hvd.size(), epoch - 1 + batch.before / shards.count)
            optimizer.learning_rate.assign(rate)
            # Horovod: a part may be empty here and not on other ranks, which wait for this one.
            passes = tf_common.passes(args, batch)
            parts = [(data.x_train[part], data.y_train[part], weight) for part, weight in passes]
            before = tf_common.earlier_passes(one_pass, parts)
            loss, flags = train_on(*parts[-1], before, agreement.flags())
            loss_sum += loss
            stop = agreement.stop(flags, loss)
            run.step_done(batch, loss)
            profile.step()
            if run.must_save(stop=stop):
                # Horovod: a checkpoint has the sum of all ranks.
                total = float(hvd.allreduce(loss_sum, op=hvd.Sum, name="loss"))
                run.save_within(total, stop=stop)
        local = [float(loss_sum)]  # float() waits for the device: the clock stops after it
        seconds = course.seconds()
        local += [run.trained(), *evaluate(model, data)]
        # Horovod: sums over all ranks, so that the means count every sample alike.
        sums = hvd.allreduce(tf.constant(local, tf.float64), op=hvd.Sum, name="sums")
        run.epoch_done(sums.numpy().tolist(), learning_rate=rate, seconds=seconds)
    profile.stop()
    return model


def evaluate(model: tf.keras.Model, data: mnist.Digits) -> list[float]:
    """Test this rank's share; return its sum of losses, its right answers and its size."""
    # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
    share = common.evaluation_share(len(data.y_test), hvd.rank(), hvd.size())
    loss = right = 0.0
    for part in common.chunks(share, EVALUATION_BATCH):
        guesses = model(tf.constant(data.x_test[part]), training=False)
        loss += float(tf.reduce_sum(losses(guesses, data.y_test[part])))
        right += int(np.sum(np.argmax(guesses.numpy(), 1) == data.y_test[part]))
    return [loss, right, len(share)]


if __name__ == "__main__":
    main()
