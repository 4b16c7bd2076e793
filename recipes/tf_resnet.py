"""Train a ResNet on pictures, or measure its speed on synthetic ones, with TensorFlow and Horovod.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG,
for resnet50 and resnet18; CIFAR-10 for resnet110 and resnet20. With `--synthetic` nothing is read:
result.json has the speed, without the first epoch, which warms up. `runner scale` measures it with
its confidence interval.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_resnet -- --epochs 5 --synthetic
    horovodrun -np 2 python -m recipes.tf_resnet --model resnet110 --data cifar10
    python -m recipes.tf_resnet --synthetic --image-size 64

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`. Ranks normalise over their own batches, as is usual: so, unlike `tf_mnist`, N ranks
with batches of b learn a little differently from one rank with batches of N b.

ResNet-50 is "version 1.5" of He et al. 2015 (arXiv:1512.03385, table 1): where a block halves the
picture, its middle convolution does it, and not its first one, as in torchvision and NVIDIA's
benchmarks.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

# Before the import, which reads them: this file is written for Keras 3 on TensorFlow, whatever
# the user's ~/.keras/keras.json says; and TensorFlow's notes would drown rank 0's lines.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import tensorflow as tf

from recipes import (
    common,
    options,
    resnet_data,
    resnet_options,
    tf_checkpoint,
    tf_pictures,
    tf_run,
)
from recipes.pictures import Labels, PictureSet

layers = tf.keras.layers
BOTTLENECK = 4  # by how much the last convolution of three widens
#: Convolutions in a block, widths of the stages, and blocks in each.
STAGES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "resnet50": (3, (64, 128, 256, 512), (3, 4, 6, 3)),
    "resnet18": (2, (64, 128, 256, 512), (2, 2, 2, 2)),
    "resnet110": (2, (16, 32, 64), (18, 18, 18)),
    "resnet20": (2, (16, 32, 64), (3, 3, 3)),
}


def parser() -> options.Parser:
    """Define the command line; `resnet_options` has every setting."""
    return resnet_options.parser("tf_resnet")


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = tf_run.start(hvd, lambda: resnet_options.check(parser().settings(argv)))
    data = resnet_data.load(args, hvd)  # Horovod: one rank looks for the files, for all.
    about = f"{args.model} on {data.describe()}"
    run = tf_run.Run(args, hvd, "tf_resnet", device, about=about)
    run.finish(train(run, data))
    hvd.shutdown()  # Horovod: leave together.


def train(run: tf_run.Run, data: PictureSet) -> tf.keras.Model:
    """Train over all epochs, testing and recording after each; return the model."""
    args = run.args
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    # A short last step is left out: a rank's mean over one picture, or none, is no mean.
    shards = run.deal(len(data.train), "pictures", whole_steps=True)
    model, optimizer = prepare(args, data)
    guess = guesser(model, data)
    compile_step(run, model, optimizer, guess)
    test_on = tf.function(lambda x: guess(x, False), [pixels(args)], autograph=False)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(tf_checkpoint.of_keras_3(hvd, model, optimizer), shards)
    feed = tf_pictures.Feed(data, run.loop, args.epochs, args.workers)
    for _ in run.epochs():
        for _ in run.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, resnet_data.rate(args, hvd, run.epochs_done))
            run.step(lambda part: feed[part], feed.blank)
        run.epoch_done(lambda: evaluate(run, model, test_on, data))
    return model


def prepare(args: Namespace, data: PictureSet) -> tuple[tf.keras.Model, tf.keras.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    tf.keras.utils.set_random_seed(args.seed)
    model = build(args.model, data.classes, data.size)
    optimizer = tf.keras.optimizers.SGD(args.base_lr, momentum=args.momentum)
    optimizer = tf_run.scaled(args, optimizer)
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


def losses(guesses: tf.Tensor, labels: tf.Tensor, smoothing: float) -> tf.Tensor:
    """Return the loss of each sample; `smoothing` is the share that all classes have of it."""
    plain = tf_run.losses(guesses, labels)
    if not smoothing:
        return plain
    all_classes = tf.reduce_mean(-tf.nn.log_softmax(guesses), axis=1)
    return (1 - smoothing) * plain + smoothing * all_classes


def penalty(weights: Sequence[tf.Variable]) -> tf.Tensor:
    """Return what weight decay is the gradient of: for matrices, not for scales and biases."""
    return tf.add_n([tf.nn.l2_loss(one) for one in weights if one.shape.rank > 1])


def compile_step(
    run: tf_run.Run, model: tf.keras.Model, optimizer: tf.keras.Optimizer, guess: Callable[..., Any]
) -> None:
    """Compile a step of training."""
    args = run.args

    def backward(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        weights = [v.value for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses(guess(x, True), y, args.label_smoothing))
            decay = penalty(weights) * args.weight_decay / args.batches_per_allreduce
            goal = run.goal(optimizer, loss * weight + decay)
        return [loss, *tape.gradient(goal, weights)]

    # Horovod: the optimiser gets the mean of the gradients over all ranks.
    run.compile(model, optimizer, backward, [pixels(args), tf.TensorSpec([None], tf.int64)])


def average_statistics(model: tf.keras.Model) -> None:
    """Let all ranks go on with the same running statistics: the mean of what each has seen."""
    own = model.non_trainable_weights
    # Horovod: all of them in one exchange.
    means = hvd.grouped_allreduce([v.value for v in own], op=hvd.Average, name="statistics")
    for variable, mean in zip(own, means):
        variable.assign(mean)


def evaluate(
    run: tf_run.Run, model: tf.keras.Model, test_on: Callable[..., Any], data: PictureSet
) -> list[float]:
    """Test this rank's share; return its sum of losses, its right answers and its size."""
    average_statistics(model)
    keys = [(0, part) for part in run.test_parts(len(data.test), run.args.batch_size)]
    ahead = tf_pictures.stream(data.test, keys, run.args.workers)

    def guess(part: common.Indices) -> tuple[tf.Tensor, Labels]:
        x, labels = next(ahead)
        return test_on(x), labels

    return run.evaluate(len(data.test), guess, run.args.batch_size)


def build(name: str, classes: int, size: int) -> Any:
    """Build a ResNet by its name (see `STAGES`) for inputs (count, size, size, 3)."""
    convolutions, widths, depths = STAGES[name]
    picture = layers.Input((size, size, 3))
    if widths[0] == 64:
        x = layers.ReLU()(_normalised(picture, 64, 7, stride=2))
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
    else:
        x = layers.ReLU()(_normalised(picture, widths[0], 3))
    for number, (width, depth) in enumerate(zip(widths, depths)):
        for place in range(depth):
            # Each stage but the first halves the picture in its first block.
            x = _block(x, convolutions, width, 2 if number and not place else 1)
    # Its weights small: unscaled, the first losses are many times those of guessing.
    small = tf.keras.initializers.RandomNormal(stddev=0.01)
    guesses = layers.Dense(classes, kernel_initializer=small)
    return tf.keras.Model(picture, guesses(layers.GlobalAveragePooling2D()(x)))


def _block(x: Any, convolutions: int, width: int, stride: int) -> Any:
    """Add two or three convolutions, around which the input is led and added."""
    if convolutions == 3:
        body = layers.ReLU()(_normalised(x, width, 1))
        body = layers.ReLU()(_normalised(body, width, 3, stride))
        outputs = width * BOTTLENECK
        body = _normalised(body, outputs, 1, scale="zeros")
    else:
        body, outputs = layers.ReLU()(_normalised(x, width, 3, stride)), width
        body = _normalised(body, outputs, 3, scale="zeros")
    if stride != 1 or x.shape[-1] != outputs:
        x = _normalised(x, outputs, 1, stride)
    return layers.ReLU()(layers.Add()([x, body]))


def _normalised(x: Any, width: int, size: int, stride: int = 1, scale: str = "ones") -> Any:
    """Add a convolution and batch normalisation.

    With a `scale` of zeros a block begins as what is led around it (Goyal et al. 2017).
    """
    draw = tf.keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    convolution = layers.Conv2D(
        width, size, stride, padding="same", use_bias=False, kernel_initializer=draw
    )
    # Of each new mean a tenth, as is usual for ResNets; Keras's own default is a hundredth.
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, gamma_initializer=scale)(
        convolution(x)
    )


if __name__ == "__main__":
    main()
