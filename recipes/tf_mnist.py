"""Train a small convolutional network on handwritten digits, with TensorFlow and Horovod.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.tf_mnist
    python -m recipes.tf_mnist

The loop is written out, with Horovod's DistributedGradientTape: under Keras 3 (TensorFlow 2.16 and
newer) Horovod's Keras optimiser with `model.fit` runs, but leaves out the exchange of gradients
without a word. Keras 3 wraps TensorFlow's variables; Horovod needs those inside: `v.value`.

Rank 0 writes metrics.jsonl, result.json and checkpoints/tf_mnist.npz into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# the user's ~/.keras/keras.json says; and TensorFlow's notes would drown rank 0's lines (oneDNN's
# greeting heeds no level in 2.21).
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from recipes import common, mnist, results

MOMENTUM = 0.9
EVALUATION_BATCH = 1000  # samples at once: bounds the memory, changes no result


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("tf_mnist", "Train a small network on handwritten digits.")
    add = parser.add_argument
    add("--epochs", type=common.positive_int, default=16, help="passes over the training set")
    add("--batch-size", type=common.positive_int, default=32, help="samples per step, on each rank")
    # One rank's rate: with N ranks a step sees N times the samples, and the rate grows to N times.
    add("--base-lr", type=common.positive_float, default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=common.natural_float, default=3, help="epochs to reach N times it")
    # The test set does not depend on it, so results with different seeds can be compared.
    add("--seed", type=common.natural_int, default=1, help="of first weights and sample order")
    add("--log-interval", type=common.positive_int, default=100, help="steps between log lines")
    # The launcher sets DATA_DIR and OUTPUT_DIR.
    add("--data", default=os.environ.get("DATA_DIR"), help="folder with MNIST; without: digits")
    add("--output", default=results.default_output(), help="folder for results and checkpoints")
    # Halves what travels between the ranks, at the price of rounding.
    add("--fp16-allreduce", action="store_true", help="exchange gradients as 16-bit floats")
    add("--max-steps", type=common.positive_int, help="stop after this many steps, for a trial")
    return parser.parse_args(argv)


def network(height: int, width: int, classes: int) -> tf.keras.Model:
    """Build the model, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((height, width)),
            layers.Reshape((height, width, 1)),  # one channel
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(classes),
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    hvd.init()  # Horovod: find the other ranks.
    device = pick_device()
    # Horovod: an error on any rank stops all of them, with one message.
    args = common.together(hvd, lambda: settings(argv))
    data = common.together(hvd, lambda: mnist.load(args.data))
    run = common.together(hvd, lambda: results.Run(args, hvd, "samples"))
    run.say(f"tf_mnist: {data.describe()}, {hvd.size()} ranks, {device}")

    model = train(args, run, data)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.numpy() for weight in model.trainable_variables)
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    hosts = results.hosts(hvd)  # Horovod: collective, so before rank 0 goes its own way.
    run.finish(hosts, {"tensorflow": tf.__version__, "horovod": horovod.__version__})
    hvd.shutdown()  # Horovod: leave together.


def pick_device() -> str:
    """Choose a GPU if one is visible, else the CPU, with the threads this rank was given."""
    threads = common.threads(hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "cpu"
    # Horovod: the ranks of one host take its GPUs in turn.
    mine = gpus[hvd.local_rank() % len(gpus)]
    tf.config.set_visible_devices(mine, "GPU")
    tf.config.experimental.set_memory_growth(mine, True)
    return "gpu"


def prepare(args: Namespace, data: mnist.Digits) -> tuple[tf.keras.Model, tf.keras.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    # Horovod: another seed on each rank, for dropout that differs; rank 0's first weights win.
    tf.keras.utils.set_random_seed(args.seed + hvd.rank())
    model = network(data.height, data.width, data.classes)
    optimizer = tf.keras.optimizers.SGD(args.base_lr, momentum=MOMENTUM)
    optimizer.build(model.trainable_variables)
    # Horovod: all ranks start from the weights and the optimiser state of rank 0.
    hvd.broadcast_variables([v.value for v in model.variables + optimizer.variables], root_rank=0)
    return model, optimizer


def training_step(
    args: Namespace, model: tf.keras.Model, optimizer: tf.keras.Optimizer, data: mnist.Digits
) -> Callable[[Any, Any], Any]:
    """Compile one step of training: a batch and its labels in, its mean loss out."""
    # Horovod: what the ranks exchange may be made smaller on the way.
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as plain:
            loss = tf.reduce_mean(losses(model(x, training=True), y))
        # Horovod: this tape averages the gradients over all ranks.
        tape = hvd.DistributedGradientTape(plain, compression=compression)
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    # One graph for all batches, the short one at the end of an epoch too.
    images = tf.TensorSpec([None, *data.x_train.shape[1:]], tf.float32)
    compiled: Callable[[Any, Any], Any] = tf.function(
        step, input_signature=[images, tf.TensorSpec([None], tf.int64)]
    )
    return compiled


def losses(guesses: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the loss of each sample."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, guesses)


def train(args: Namespace, run: results.Run, data: mnist.Digits) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    model, optimizer = prepare(args, data)
    train_on = training_step(args, model, optimizer, data)
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.Shards(len(data.y_train), hvd.rank(), hvd.size(), args.seed)
    steps_per_epoch = shards.steps(args.batch_size)
    last_step = min(args.epochs * steps_per_epoch, args.max_steps or sys.maxsize)
    step = epoch = 0
    while step < last_step:
        epoch += 1
        shards.set_epoch(epoch)  # Horovod: another order in each epoch, the same on all ranks.
        loss_sum, seen, began = tf.zeros(()), 0, time.perf_counter()
        for batch in shards.batches(args.batch_size)[: last_step - step]:
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            progress = step / steps_per_epoch
            rate = common.learning_rate(args.base_lr, hvd.size(), progress, args.warmup_epochs)
            optimizer.learning_rate.assign(rate)
            loss = train_on(tf.constant(data.x_train[batch]), tf.constant(data.y_train[batch]))
            step += 1
            loss_sum += loss * len(batch)
            seen += len(batch)
            run.step_done(step, loss)
        local = [float(loss_sum), seen]  # float() waits for the device: the clock stops after it
        seconds = time.perf_counter() - began
        # Horovod: sums over all ranks, so that the means count every sample alike.
        local = tf.constant([*local, *evaluate(model, data)], tf.float64)
        sums = hvd.allreduce(local, op=hvd.Sum, name="sums").numpy().tolist()
        run.epoch_done(sums, epoch=epoch, step=step, learning_rate=rate, seconds=seconds)
        run.checkpoint("tf_mnist.npz", partial(save, model, optimizer))
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


def save(model: tf.keras.Model, optimizer: tf.keras.Optimizer, stream: BinaryIO) -> None:
    """Write a checkpoint: every variable of model and optimiser by its path."""
    np.savez(stream, **{v.path: v.numpy() for v in model.variables + optimizer.variables})


if __name__ == "__main__":
    main()
