"""Train a small convolutional network on handwritten digits, with Keras' `fit` and Horovod.

For those who use `model.fit`: Horovod's optimizer and its four callbacks do what `tf_mnist.py` has
written out. Under Keras 3 (TensorFlow 2.16 and newer) they need the Horovod of our images: with
0.28.1 as it was released `fit` runs, and exchanges no gradients.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks. `fit` gives each batch of each rank the same weight, so all
must be of one size: an epoch leaves out the rest, after its last whole step, other ones each time.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 keras_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.keras_mnist
    python -m recipes.keras_mnist

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Horovod:`.
"""

from __future__ import annotations

import math
import os
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# ~/.keras/keras.json says, and TensorFlow's notes would hide rank 0's lines.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import tensorflow as tf

from recipes import digits, distributed, options, run_tf
from recipes.distributed import Ranks, Shards
from recipes.run import Run


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("keras_mnist", "Train a small network on digits, with fit.")
    add = parser.add_argument
    add("--epochs", type=options.at_least(1), default=16, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=32, help="samples of a rank in a step")
    add("--base-lr", type=options.at_least(0.0), default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=options.at_least(0), default=3, help="epochs to N times it")
    add("--schedule", choices=("constant", "cosine"), default="constant", help="of the rate")
    add("--dropout", type=options.at_least(0.0, below=1), default=0.5, help="dropout probability")
    parser.add_horovod(adasum=False)
    return parser


def read_options(world: Ranks) -> tuple[Namespace, str]:
    args = parser().parse_args()
    return args, run_tf.pick_device(args, world)


def build_model(args: Namespace, data: digits.Digits) -> tf.keras.Model:
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
            layers.Activation("linear", dtype="float32"),  # the loss wants that with bfloat16 too
        ]
    )


def compile_model(args: Namespace, world: Ranks, data: digits.Digits) -> tf.keras.Model:
    """Build and compile the model, equal on all ranks."""
    tf.keras.utils.set_random_seed(args.seed)
    model = build_model(args, data)
    # Horovod: the rate grows with the number of ranks.
    optimizer = tf.keras.optimizers.SGD(args.base_lr * world.size, momentum=0.9)
    # Horovod: this optimizer first averages the gradients over all ranks.
    optimizer = hvd_keras.DistributedOptimizer(
        optimizer,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
    )
    optimizer.build(model.trainable_variables)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)  # XLA, the default on GPUs, knows no Horovod
    return model


def callbacks(args: Namespace, world: Ranks, shards: Shards, skipped: dict[int, int]) -> list[Any]:
    # Horovod: the rate for all ranks, which the warm-up reaches and the schedule falls from.
    # Momentum is a mere number in Keras 3's optimizers: the callbacks cannot correct it.
    settings = {"initial_lr": args.base_lr * world.size, "momentum_correction": False}
    warmup = Warmup(warmup_epochs=args.warmup_epochs, steps_per_epoch=shards.steps(), **settings)
    warmup.skipped = skipped

    def decay(epoch: float) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * epoch / args.epochs))
        return cosine if args.schedule == "cosine" else 1.0

    return [
        # Horovod: all ranks begin with the weights of rank 0.
        hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0),
        # Horovod: losses become means over all ranks, for the callbacks that come after this one.
        hvd_keras.callbacks.MetricAverageCallback(),
        warmup,
        hvd_keras.callbacks.LearningRateScheduleCallback(
            multiplier=decay, start_epoch=args.warmup_epochs, **settings
        ),
    ]


class Warmup(hvd_keras.callbacks.LearningRateWarmupCallback):  # type: ignore[misc]
    """Horovod's warm-up, for a first epoch too of which some steps are done already."""

    skipped: dict[int, int]  # steps by epoch, counted from 0 like Keras' epochs

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        super().on_batch_begin(batch + self.skipped.get(self.current_epoch, 0), logs)


class Recorder(tf.keras.callbacks.Callback):  # type: ignore[misc]  # not there for mypy
    """Tells the run of each step, which saves, and stops all ranks in the same one."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.batches = self.run.batches()
        self.loss_sum, self.seen = 0.0, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        next(self.batches)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step; `logs` has the mean loss of all steps since `fit` was called."""
        self.seen += self.run.batch.own
        loss = float(logs["loss"]) * self.seen - self.loss_sum
        self.loss_sum += loss
        self.run.step_done(loss)


def batches(
    data: digits.Digits, shards: Shards, epoch: int, taken: int
) -> Iterator[tuple[Any, Any]]:
    """Yield the images and labels of this rank's batches, from within an epoch on."""
    for batch in shards.batches(epoch, taken):
        yield data.x_train[batch.parts[0]], data.y_train[batch.parts[0]]


def main() -> None:
    world = distributed.horovod(hvd)  # Horovod: find the other ranks.
    # Horovod: an error on any rank is printed once and ends all; each rank takes its own GPU.
    args, device = distributed.together(world, lambda: read_options(world))
    data = distributed.together(world, lambda: digits.load(args.data))
    run = Run(args, world, "keras_mnist", run_tf.framework(device), data.describe())

    model = compile_model(args, world, data)
    optimizer = model.optimizer
    # Horovod: from here on another seed on each rank, for dropout that differs.
    run_tf.draw(run_tf.seeds(model), args.seed, world.rank)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.begin(len(data.y_train), run_tf.State(world, model, optimizer), drop_last=True)
    skipped = {run.epoch - 1: run.taken // run.shards.per_step}
    called = [*callbacks(args, world, run.shards, skipped), Recorder(run)]

    def predict(part: Any) -> tuple[tf.Tensor, Any]:
        return model(data.x_test[part]), data.y_test[part]

    # A call of fit for each epoch, because the first and the last one may be parts of epochs.
    for epoch in run.epochs():
        left = min(run.shards.steps(run.taken), run.last_step - run.step)
        model.fit(
            batches(data, run.shards, epoch, run.taken),
            steps_per_epoch=left,
            initial_epoch=epoch - 1,
            epochs=epoch,
            callbacks=called,
            shuffle=False,  # the shards are
            verbose=0,
        )
        run.rate = float(optimizer.learning_rate.numpy())
        run.epoch_done(lambda: run_tf.evaluate(run, len(data.y_test), predict))
    run.finish(v.numpy() for v in model.trainable_variables)


if __name__ == "__main__":
    main()
