"""Train a small convolutional network on digits, with TensorFlow's MultiWorkerMirroredStrategy.

The comparison for `tf_mnist`: the same network, data, options and results, but the gradients are
exchanged by tf.distribute.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_mirrored_mnist -- --epochs 5
    python -m recipes.tf_mirrored_mnist     (several ranks: each with its own TF_CONFIG)

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Mirrored:`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
from argparse import Namespace
from typing import Any

import numpy as np

# Before the import, which reads them; see tf_mnist.py.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from recipes import digits, options, ranks, run_tf
from recipes.ranks import Ranks, UserError

WORD = 4  # bytes: the collectives gather no smaller numbers


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser(
        "tf_mirrored_mnist", "Train a small network on digits, with tf.distribute."
    )
    add = parser.add_argument
    add("--epochs", type=options.at_least(1), default=16, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=32, help="samples of a rank and pass")
    add("--base-lr", type=options.at_least(0.0), default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=3, help="epochs to N times it")
    add("--dropout", type=options.at_least(0.0, below=1), default=0.5, help="dropout probability")
    parser.add_accumulation()
    add("--compile", action="store_true", help="compile the computation of gradients by XLA")
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


class Workers:
    """The workers of TF_CONFIG, which `runner launch --tf-config` sets; without it there is one.

    The strategy is made at its first use: before TensorFlow computes anything, and after its
    threads and devices are chosen.
    """

    def __init__(self) -> None:
        text = os.environ.get("TF_CONFIG") or "{}"
        self.addresses, self.rank = ["localhost:0"], 0
        try:
            if config := json.loads(text):
                self.addresses = list(config["cluster"]["worker"])
                self.rank = int(config["task"]["index"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"TF_CONFIG must name workers and this rank's index, not {text!r}: {error!r}"
            ) from error

    @functools.cached_property
    def strategy(self) -> tf.distribute.Strategy:
        return tf.distribute.MultiWorkerMirroredStrategy()  # Mirrored: finds the other workers.

    @functools.cached_property
    def _gather(self) -> Any:
        strategy = self.strategy  # it cannot be made within a function

        def each(mine: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            context, mine = tf.distribute.get_replica_context(), tf.identity(mine)  # on its device
            return context.all_gather(tf.shape(mine), 0), context.all_gather(mine, 0)

        def gather(mine: tf.Tensor) -> Any:
            return strategy.run(each, args=(mine,))

        return tf.function(gather, [tf.TensorSpec([None], tf.int32)], autograph=False)

    def gather(self, mine: Any) -> list[Any]:
        """Return all ranks' objects, by rank."""
        packed = pickle.dumps(mine)
        words = np.frombuffer(packed + bytes(-len(packed) % WORD), np.int32)
        lengths, every = (gathered.numpy() for gathered in self._gather(words))
        pieces = np.split(every, np.cumsum(lengths)[:-1])
        # TensorFlow's own servers, which send it, run code for every client anyway.
        return [pickle.loads(each.tobytes()) for each in pieces]  # noqa: S301

    def close(self) -> None:
        """Return when every rank has what was gathered before.

        A rank that ends takes its connections along, from under a gathering too that is over here
        and not on all ranks yet. This one more may fail so: nobody needs what it gathers.
        """
        with contextlib.suppress(tf.errors.OpError):
            self.gather(None)

    def ranks(self) -> Ranks:
        hosts = [address.rpartition(":")[0] for address in self.addresses]
        local = [rank for rank, host in enumerate(hosts) if host == hosts[self.rank]]
        return Ranks(
            rank=self.rank,
            size=len(hosts),
            local_rank=local.index(self.rank),
            local_size=len(local),
            gather=self.gather,
            broadcast=lambda mine: self.gather(mine if self.rank == 0 else None)[0],
            close=self.close,
        )


def read_options(world: Ranks) -> tuple[Namespace, str]:
    args = parser().parse_args()
    return args, run_tf.pick_device(args, world)


def functions(
    strategy: tf.distribute.Strategy, args: Namespace, model: Any, optimizer: Any, data: Any
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

    def step_of_replica(part: tf.Tensor, weight: tf.Tensor, before: list[tf.Tensor]) -> tf.Tensor:
        loss, *mine = run_tf.add(before, gradients(part, weight))
        # Mirrored: Keras' optimizer takes the sum over all replicas.
        means = [gradient / strategy.num_replicas_in_sync for gradient in mine]
        optimizer.apply_gradients(zip(means, model.trainable_variables))
        return loss

    @tf.function(autograph=False)
    def step(part: tf.Tensor, weight: tf.Tensor, before: list[tf.Tensor]) -> tf.Tensor:
        """Do the last backward pass of a step and change the weights."""
        # Mirrored: in each replica, of which a rank has one.
        return strategy.run(step_of_replica, args=(part, weight, before))

    @tf.function(autograph=False)
    def one_pass(part: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        return strategy.run(gradients, args=(part, weight))

    return one_pass, step


def main() -> None:
    workers = Workers()  # Mirrored: find the other ranks.
    world = workers.ranks()
    # Mirrored: an error on any rank is printed once and ends all; each rank takes its own GPU.
    args, device = ranks.together(world, lambda: read_options(world))
    data = ranks.together(world, lambda: digits.load(args.data))
    run = run_tf.Run(args, world, "tf_mirrored_mnist", device, data.describe())

    tf.keras.utils.set_random_seed(args.seed)
    strategy = workers.strategy
    with strategy.scope():  # Mirrored: all ranks start from the variables of rank 0.
        model = build_model(args, data)
        optimizer = tf.keras.optimizers.SGD(args.base_lr, momentum=0.9)
        optimizer.build(model.trainable_variables)
    # Mirrored: from here on another seed on each rank, for dropout that differs.
    run_tf.draw(run_tf.seeds(model), args.seed, world.rank)
    gradients, step = functions(strategy, args, model, optimizer, data)

    def predict(part: Any) -> tuple[tf.Tensor, Any]:
        return model(data.x_test[part], training=False), data.y_test[part]

    # Mirrored: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.begin(len(data.y_train), run_tf.State(world, model, optimizer))
    for _ in run.epochs():
        for batch in run.batches():  # Mirrored: this rank's samples of a step.
            # Mirrored: the rate grows with the number of ranks, after a warm-up.
            run.rate = ranks.learning_rate(args, world.size, run.epochs_done)
            optimizer.learning_rate.assign(run.rate)
            # Mirrored: a part may be empty here and not on other ranks, which wait for this one.
            *parts, last = run_tf.passes(batch)
            before: list[Any] = []
            for part in parts:
                before = run_tf.add(before, gradients(*map(tf.constant, part)))
            run.step_done(step(*map(tf.constant, last), before))
        run.epoch_done(lambda: run.evaluate(len(data.y_test), predict))
    run.finish((v.numpy() for v in model.trainable_variables), exchange="mirrored")


if __name__ == "__main__":
    main()
