"""Train a small convolutional network on handwritten digits, with TensorFlow and Horovod or its own
MultiWorkerMirroredStrategy.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.tf_mnist
    python -m recipes.tf_mnist
    python -m recipes.tf_mnist --exchange mirrored   (several ranks: each with its own TF_CONFIG)

The loop is written out; `keras_mnist` has `model.fit`. Keras 3 wraps TensorFlow's variables;
Horovod as it was released needs those inside: `v.value`.

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Horovod:` and `# Mirrored:`.
"""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from typing import Any

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# ~/.keras/keras.json says, and TensorFlow's notes would hide rank 0's lines.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from recipes import digits, distributed, mirrored, options, run_tf
from recipes.distributed import Ranks, UserError
from recipes.run import Run

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.tensorflow as hvd


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("tf_mnist", "Train a small network on handwritten digits.")
    add = parser.add_argument
    exchanges = ("horovod", "mirrored")
    add("--exchange", choices=exchanges, default="horovod", help="averages the gradients")
    add("--epochs", type=options.at_least(1), default=16, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=32, help="samples of a rank and pass")
    add("--base-lr", type=options.at_least(0.0), default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=3, help="epochs to N times it")
    add("--dropout", type=options.at_least(0.0, below=1), default=0.5, help="dropout probability")
    parser.add_accumulation()
    add("--compile", action="store_true", help="compile the computation of gradients by XLA")
    parser.add_horovod()
    return parser


def build_model(args: Namespace, data: digits.Digits) -> tf.keras.Model:
    """Build the network, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
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


def read_options(world: Ranks) -> tuple[Namespace, str]:
    args = distributed.check(parser().parse_args(), world)
    if EXCHANGE == "mirrored" and args.fp16_allreduce:
        raise UserError("--fp16-allreduce is Horovod's: not with --exchange mirrored")
    return args, run_tf.pick_device(args, world)


def functions(
    args: Namespace, model: Any, optimizer: Any, data: digits.Digits, strategy: Any
) -> tuple[Any, Any]:
    """Return what computes gradients, and what does the last pass of a step."""
    x_all, y_all = tf.constant(data.x_train), tf.constant(data.y_train)  # on the device
    indices = tf.TensorSpec([None], tf.int64)  # one graph for short batches too

    @tf.function(
        input_signature=[indices, tf.TensorSpec([])], autograph=False, jit_compile=args.compile
    )
    def gradients(part: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        """Return the sum of losses of a part, then the gradients of it times `weight`."""
        with tf.GradientTape() as tape:
            logits = model(tf.gather(x_all, part), training=True)
            loss = tf.reduce_sum(run_tf.losses(logits, tf.gather(y_all, part)))
            goal = loss * weight
        weights = [v.value for v in model.trainable_variables]
        return [loss * tf.sign(weight), *tape.gradient(goal, weights)]

    def step(part: tf.Tensor, weight: tf.Tensor, before: list[tf.Tensor]) -> tf.Tensor:
        """Do the last backward pass of a step and change the weights. Never compiled by XLA."""
        loss, *mine = run_tf.add(before, gradients(part, weight))
        if strategy is None:
            means = averaged(args, mine)
        else:  # Mirrored: Keras' optimizer takes the sum over all replicas.
            means = [gradient / strategy.num_replicas_in_sync for gradient in mine]
        optimizer.apply_gradients(zip(means, model.trainable_variables))
        return loss

    if strategy is None:
        return gradients, tf.function(step, autograph=False)
    # Mirrored: in each replica, of which a rank has one.
    return in_replica(strategy, gradients), in_replica(strategy, step)


def averaged(args: Namespace, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return the gradients combined over all ranks."""
    # Horovod: the mean over all ranks; each sets out while others are still computed.
    op = hvd.Adasum if args.adasum else hvd.Average
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    return [
        hvd.allreduce(gradient, op=op, compression=compression, name=f"gradient.{number}")
        for number, gradient in enumerate(gradients)
    ]


def in_replica(strategy: Any, function: Any) -> Any:
    """Return what runs a function in this rank's replica."""

    @tf.function(autograph=False)
    def run(*words: Any) -> Any:
        return strategy.run(function, args=words)

    return run


def main() -> None:
    # Horovod: find the other ranks.
    workers = mirrored.Workers() if EXCHANGE == "mirrored" else None
    world = distributed.horovod(hvd) if workers is None else workers.ranks()
    # Horovod: an error on any rank is printed once and ends all; each rank takes its own GPU.
    args, device = distributed.together(world, lambda: read_options(world))
    data = distributed.together(world, lambda: digits.load(args.data))
    run = Run(args, world, "tf_mnist", run_tf.framework(device), data.describe())

    tf.keras.utils.set_random_seed(args.seed)
    strategy = None if workers is None else workers.strategy
    # Mirrored: all ranks start from the variables of rank 0.
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        model = build_model(args, data)
        optimizer = tf.keras.optimizers.SGD(args.base_lr, momentum=0.9)
        optimizer.build(model.trainable_variables)
    if strategy is None:
        # Horovod: all ranks start from the weights and the optimizer state of rank 0.
        variables = [v.value for v in model.variables + optimizer.variables]
        hvd.broadcast_variables(variables, root_rank=0)
    # Horovod: from here on another seed on each rank, for dropout that differs.
    run_tf.draw(run_tf.seeds(model), args.seed, world.rank)
    gradients, step = functions(args, model, optimizer, data, strategy)

    def predict(part: Any) -> tuple[tf.Tensor, Any]:
        return model(data.x_test[part], training=False), data.y_test[part]

    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.begin(len(data.y_train), run_tf.State(world, model, optimizer))
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's samples of a step.
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.rate = distributed.learning_rate(args, world.size, run.epochs_done)
            optimizer.learning_rate.assign(run.rate)
            # Horovod: a part may be empty here and not on other ranks, which wait for this one.
            *parts, last = run_tf.passes(batch, args.adasum)
            before: list[Any] = []
            for part in parts:
                before = run_tf.add(before, gradients(*map(tf.constant, part)))
            run.step_done(step(*map(tf.constant, last), before))
        run.epoch_done(lambda: run_tf.evaluate(run, len(data.y_test), predict))
    run.finish((v.numpy() for v in model.trainable_variables), exchange=EXCHANGE)


if __name__ == "__main__":
    main()
