"""Train a ResNet on pictures, or measure its speed on synthetic ones, with TensorFlow and Horovod.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG,
for resnet50 and resnet18; CIFAR-10 for resnet110 and resnet20. With `--synthetic` nothing is read:
the speed of each rank and of all is told with its 95 % confidence interval, after a warm-up.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_resnet -- --epochs 5 --synthetic
    horovodrun -np 2 python -m recipes.tf_resnet --model resnet110 --data cifar10
    python -m recipes.tf_resnet --synthetic --image-size 64

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`. Ranks normalise over their own batches, as is usual: so, unlike `tf_mnist`, N ranks
with batches of b learn a little differently from one rank with batches of N b.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# the user's ~/.keras/keras.json says; and TensorFlow's notes would drown rank 0's lines.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from recipes import common, resnets, tf_common, tf_pictures, tf_resnets
from recipes.pictures import PictureSet


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("tf_resnet", "Train a ResNet on pictures.")
    resnets.add_options(parser)
    return resnets.check(common.parse(parser, argv))


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    common.before_init(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: an error on any rank stops all of them, with one message.
    args, device = common.together(hvd, lambda: tf_common.with_device(settings(argv), hvd))
    data = resnets.load(args, hvd)  # Horovod: one rank looks for the files, for all.
    versions = {"tensorflow": tf.__version__, "horovod": horovod.__version__}
    run = common.Run(args, hvd, "tf_resnet", device=device, versions=versions)
    run.introduce(f"{args.model} on {data.describe()}")

    model = train(args, run, data)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.numpy() for weight in model.trainable_variables)
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    run.finish(**resnets.tell_speed(args, run, hvd.size()))
    hvd.shutdown()  # Horovod: leave together.


def prepare(args: Namespace, data: PictureSet) -> tuple[tf.keras.Model, tf.keras.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    tf.keras.utils.set_random_seed(args.seed)
    model = tf_resnets.build(args.model, data.classes, data.size)
    optimizer = tf.keras.optimizers.SGD(args.base_lr, momentum=args.momentum)
    optimizer = tf_common.scaled(args, optimizer)
    optimizer.build(model.trainable_variables)
    # Horovod: all ranks start from the weights and the optimiser state of rank 0.
    hvd.broadcast_variables([v.value for v in model.variables + optimizer.variables], root_rank=0)
    return model, optimizer


def guesser(model: tf.keras.Model, data: PictureSet) -> Callable[..., Any]:
    """Return what maps bytes (count, size, size, 3) to unnormalised chances of all classes."""
    mean, deviation = tf.constant(data.mean), tf.constant(data.deviation)

    def guess(x: tf.Tensor, training: bool) -> tf.Tensor:
        scaled = (tf.cast(x, tf.float32) / 255 - mean) / deviation
        return tf.cast(model(scaled, training=training), tf.float32)

    return guess


def pixels(args: Namespace) -> tf.TensorSpec:
    """Return the form of a batch of pictures."""
    return tf.TensorSpec([None, args.image_size, args.image_size, 3], tf.uint8)


def losses(guesses: tf.Tensor, labels: tf.Tensor, smoothing: float = 0.0) -> tf.Tensor:
    """Return the loss of each sample; `smoothing` is the share that all classes have of it."""
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, guesses)
    if not smoothing:
        return plain
    all_classes = tf.reduce_mean(-tf.nn.log_softmax(guesses), axis=1)
    return (1 - smoothing) * plain + smoothing * all_classes


def penalty(weights: Sequence[tf.Variable]) -> tf.Tensor:
    """Return what weight decay is the gradient of: for matrices, not for scales and biases."""
    return tf.add_n([tf.nn.l2_loss(one) for one in weights if one.shape.rank > 1])


def training_step(
    args: Namespace, model: tf.keras.Model, optimizer: tf.keras.Optimizer, guess: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile a backward pass, and one step of training, which ends with such a pass."""

    def backward(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        weights = [v.value for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses(guess(x, True), y, args.label_smoothing))
            decay = penalty(weights) * args.weight_decay / args.batches_per_allreduce
            goal = tf_common.goal(args, optimizer, loss * weight + decay)
        return [loss, *tape.gradient(goal, weights)]

    def step(x: Any, y: Any, weight: Any, before: Any, flags: Any) -> tuple[tf.Tensor, tf.Tensor]:
        loss, *gradients = tf_common.add(before, one_pass(x, y, weight))
        # Horovod: the mean of the gradients over all ranks, and what ranks have to tell.
        gradients, flags = tf_common.exchange(args, hvd, gradients, loss, flags)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss, flags

    part = [pixels(args), tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.float32)]
    more = [tf_common.specification(args, model), tf.TensorSpec([2], tf.float32)]
    one_pass = tf.function(backward, part, autograph=False)
    return one_pass, tf.function(step, [*part, *more], autograph=False)


def train(args: Namespace, run: common.Run, data: PictureSet) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.together(hvd, lambda: resnets.shares(args, hvd, len(data.train)))
    model, optimizer = prepare(args, data)
    guess = guesser(model, data)
    one_pass, train_on = training_step(args, model, optimizer, guess)
    test_on = tf.function(lambda x: guess(x, False), [pixels(args)], autograph=False)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    course = run.resume(tf_common.state(hvd, model, optimizer), shards)
    feed = tf_pictures.Feed(data, course, args.epochs, args.workers)
    # Horovod: all ranks stop in the same step, if one was asked to, or cannot read a picture.
    agreement = tf_common.Agreement(hvd, run)
    profile = tf_common.Profile(args, run)
    for epoch in course.epochs():
        loss_sum = tf.constant(run.loss_before())
        for batch in course.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            rate = resnets.rate(args, hvd, epoch - 1 + batch.before / shards.count)
            optimizer.learning_rate.assign(rate)
            passes = tf_common.passes(args, batch)
            parts = [(*agreement.read(feed, part), weight) for part, weight in passes]
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
        average_statistics(model)
        local.append(run.trained())
        # Horovod: a picture that cannot be read may be in one rank's share only.
        local += common.together(hvd, lambda: evaluate(args, test_on, data))
        # Horovod: sums over all ranks, so that the means count every sample alike.
        sums = hvd.allreduce(tf.constant(local, tf.float64), op=hvd.Sum, name="sums")
        run.epoch_done(sums.numpy().tolist(), learning_rate=rate, seconds=seconds)
    profile.stop()
    return model


def average_statistics(model: tf.keras.Model) -> None:
    """Let all ranks go on with the same running statistics: the mean of what each has seen."""
    own = model.non_trainable_weights
    # Horovod: all of them in one exchange.
    means = hvd.grouped_allreduce([v.value for v in own], op=hvd.Average, name="statistics")
    for variable, mean in zip(own, means):
        variable.assign(mean)


def evaluate(args: Namespace, test_on: Callable[..., Any], data: PictureSet) -> list[float]:
    """Test this rank's share; return its sum of losses, its right answers and its size."""
    # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
    share = common.evaluation_share(len(data.test), hvd.rank(), hvd.size())
    parts = [(0, part) for part in common.chunks(share, args.batch_size)]
    loss = right = 0.0
    for x, labels in tf_pictures.stream(data.test, parts, args.workers):
        guesses = test_on(x)
        loss += float(tf.reduce_sum(losses(guesses, labels)))
        right += int(np.sum(np.argmax(guesses.numpy(), 1) == labels))
    return [loss, right, len(share)]


if __name__ == "__main__":
    main()
