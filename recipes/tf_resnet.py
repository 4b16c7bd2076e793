"""Train ResNet-50 on ImageNet, ResNet-20 or -110 on CIFAR-10, with TensorFlow and Horovod.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG;
with `--model resnet20` or `resnet110` CIFAR-10. With `--synthetic` random images, made once on the
device, measure the speed: result.json has it without the first epoch, and `runner scale` its
confidence interval.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 tf_resnet -- --epochs 5 --synthetic
    horovodrun -np 2 python -m recipes.tf_resnet --model resnet20 --data cifar10
    python -m recipes.tf_resnet --synthetic --image-size 64

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Horovod:`. Batch normalization uses a rank's own
batch, as is usual: so, unlike in `tf_mnist`, N ranks with batches of b learn a little differently
from one rank with batches of N b.

ResNet-50 is "version 1.5" of He et al. 2015 (arXiv:1512.03385): the 3 x 3 convolution of a block
has its stride.
"""

from __future__ import annotations

import itertools
import os
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

# Before the import, which reads them; see tf_mnist.py.
os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import tensorflow as tf

from recipes import distributed, images, options, results, run_tf
from recipes.distributed import Ranks
from recipes.run import Run

layers = tf.keras.layers
STEPS = {"cpu": 10, "gpu": 50}  # of an epoch with --synthetic
FLOPS = 3 * 2 * 4.089e9  # ResNet-50, 224 x 224: 4.089 G multiply-adds forward, backward twice that


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("tf_resnet", "Train a ResNet on images.")
    add = parser.add_argument
    models = ("resnet50", "resnet20", "resnet110")
    add("--model", choices=models, default="resnet50", help="20 and 110: for CIFAR-10")
    add("--synthetic", action="store_true", help="measure the speed with random images")
    add("--image-size", type=options.at_least(1), help="pixels, for resnet50; default 224")
    add("--epochs", type=options.at_least(1), default=90, help="passes over the training set")
    add("--batch-size", type=options.at_least(2), default=32, help="images of a rank and pass")
    # 0.1 for 256 images (Goyal et al. 2017, arXiv:1706.02677) is 0.0125 for 32.
    add("--base-lr", type=options.at_least(0.0), default=0.0125, help="learning rate of one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=5, help="epochs to N times it")
    add("--schedule", choices=("step", "cosine", "constant"), default="step", help="of the rate")
    add("--momentum", type=options.at_least(0.0, below=1), default=0.9, help="momentum of SGD")
    decay = "weight decay, not of biases and batch normalization"
    add("--weight-decay", type=options.at_least(0.0), default=1e-4, help=decay)
    smoothing = "share of the label spread over all classes"
    add("--label-smoothing", type=options.at_least(0.0, below=1), default=0.0, help=smoothing)
    parser.add_accumulation()
    workers = "threads that decode images; default: the rank's CPUs"
    add("--workers", type=options.at_least(0), help=workers)
    add("--compile", action="store_true", help="compile the computation of gradients by XLA")
    parser.add_horovod()
    return parser


def build_model(name: str, classes: int, size: int) -> tf.keras.Model:
    """Build a ResNet for normalized images (count, size, size, 3)."""
    large = name == "resnet50"
    stages = [(64, 3), (128, 4), (256, 6), (512, 3)]
    if not large:
        stages = [(width, images.CIFAR_BLOCKS[name]) for width in (16, 32, 64)]
    image = layers.Input((size, size, 3))
    if large:
        x = layers.ReLU()(normalized(image, 64, 7, stride=2))
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
    else:
        x = layers.ReLU()(normalized(image, 16, 3))
    for stage, (width, depth) in enumerate(stages):
        for number in range(depth):
            x = block(x, width, 2 if stage and not number else 1, bottleneck=large)
    # Small weights: unscaled, the first losses are many times those of chance.
    small = tf.keras.initializers.RandomNormal(stddev=0.01)
    logits = layers.Dense(classes, kernel_initializer=small, dtype="float32")
    return tf.keras.Model(image, logits(layers.GlobalAveragePooling2D()(x)))


def block(x: Any, width: int, stride: int, bottleneck: bool) -> Any:
    """Add two or three convolutions, and the input to their output."""
    outputs = 4 * width if bottleneck else width
    body = normalized(x, width, 1) if bottleneck else normalized(x, width, 3, stride)
    if bottleneck:
        body = normalized(layers.ReLU()(body), width, 3, stride)
    body = normalized(layers.ReLU()(body), outputs, 1 if bottleneck else 3, scale="zeros")
    if stride != 1 or x.shape[-1] != outputs:
        x = normalized(x, outputs, 1, stride)
    return layers.ReLU()(layers.Add()([x, body]))


def normalized(x: Any, width: int, size: int, stride: int = 1, scale: str = "ones") -> Any:
    """Add a convolution and batch normalization.

    With a `scale` of zeros a block begins as its shortcut (Goyal et al. 2017).
    """
    draw = tf.keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    convolution = layers.Conv2D(
        width, size, stride, padding="same", use_bias=False, kernel_initializer=draw
    )
    # Of each new mean a tenth, as is usual for ResNets; Keras's own default is a hundredth.
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, gamma_initializer=scale)(
        convolution(x)
    )


def average_statistics(model: Any) -> None:
    """Give all ranks the same running statistics, for tests and checkpoints: the mean of theirs."""
    statistics = model.non_trainable_weights
    # Horovod: all of them in one exchange.
    means = hvd.grouped_allreduce([v.value for v in statistics], op=hvd.Average, name="statistics")
    for variable, mean in zip(statistics, means):
        variable.assign(mean)


def read_options(world: Ranks) -> tuple[Namespace, str]:
    args = distributed.check(images.check(parser().parse_args()), world)
    return args, run_tf.pick_device(args, world)


def functions(args: Namespace, model: Any, optimizer: Any, data: Any) -> tuple[Any, Any, Any]:
    """Return what computes gradients, does the last pass of a step, and gives logits of a test."""
    mean, std = (data.mean, data.std) if data else ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    pixels = tf.TensorSpec([None, args.image_size, args.image_size, 3], tf.uint8)

    def predict(x: tf.Tensor, training: bool) -> tf.Tensor:
        return model((tf.cast(x, tf.float32) / 255 - mean) / std, training=training)

    @tf.function(
        input_signature=[pixels, tf.TensorSpec([None], tf.int64), tf.TensorSpec([])],
        autograph=False,
        jit_compile=args.compile,
    )
    def gradients(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        """Return the sum of losses of a part, then the gradients of the step's mean."""
        weights = [v.value for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            logits = predict(x, True)
            plain = run_tf.losses(logits, y)
            spread = tf.reduce_mean(-tf.nn.log_softmax(logits), axis=1)
            smoothing = args.label_smoothing
            loss = tf.reduce_sum((1 - smoothing) * plain + smoothing * spread)
            # Weight decay is for matrices, not for biases and batch normalization.
            decay = tf.add_n([tf.nn.l2_loss(matrix) for matrix in weights if matrix.shape.rank > 1])
            goal = loss * weight + decay * (args.weight_decay / args.batches_per_allreduce)
        return [loss, *tape.gradient(goal, weights)]

    @tf.function(autograph=False)
    def step(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor, before: list[tf.Tensor]) -> tf.Tensor:
        """Do the last backward pass of a step and change the weights. Never compiled by XLA."""
        loss, *mine = run_tf.add(before, gradients(x, y, weight))
        optimizer.apply_gradients(zip(averaged(args, mine), model.trainable_variables))
        return loss

    return gradients, step, tf.function(lambda x: predict(x, False), [pixels], autograph=False)


def averaged(args: Namespace, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    # Horovod: the mean over all ranks; each sets out while others are still computed.
    return [
        hvd.allreduce(
            gradient,
            op=hvd.Adasum if args.adasum else hvd.Average,
            compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
            name=f"gradient.{number}",
        )
        for number, gradient in enumerate(gradients)
    ]


def evaluate(run: Run, model: Any, test_on: Any, test: Any) -> Any:
    """Return this rank's sum of losses, right answers and number of images."""
    average_statistics(model)
    at_once = run.args.batch_size
    parts = run.test_parts(len(test), at_once)
    stream = run_tf.read_ahead(run.args, test, [(0, part) for part in parts])

    def predict_next(part: Any) -> tuple[tf.Tensor, Any]:
        x, labels = next(stream)
        return test_on(x), labels

    return run_tf.evaluate(run, len(test), predict_next, at_once)


def training_images(args: Namespace, data: Any, run: Run) -> Iterator[Any]:
    """Yield this rank's images and labels of each pass, or the same random ones."""
    if data:
        return run_tf.read_ahead(args, data.train, run.keys())
    shape = args.batch_size, args.image_size, args.image_size, 3
    random = tf.cast(tf.random.uniform(shape, 0, 255, tf.int32), tf.uint8)
    return itertools.repeat((random, tf.random.uniform((args.batch_size,), 0, 10, tf.int64)))


def main() -> None:
    world = distributed.horovod(hvd)  # Horovod: find the other ranks.
    # Horovod: an error on any rank is printed once and ends all; each rank takes its own GPU.
    args, device = distributed.together(world, lambda: read_options(world))
    data: Any = images.load(args, world)
    about = f"{args.model} on {data.describe() if data else 'random images, no evaluation'}"
    run = Run(args, world, "tf_resnet", run_tf.framework(device), about)

    tf.keras.utils.set_random_seed(args.seed)
    model = build_model(args.model, data.classes if data else 1000, args.image_size)
    optimizer = tf.keras.optimizers.SGD(args.base_lr, momentum=args.momentum)
    optimizer.build(model.trainable_variables)
    # Horovod: all ranks start from the weights and the optimizer state of rank 0.
    hvd.broadcast_variables([v.value for v in model.variables + optimizer.variables], root_rank=0)
    gradients, step, test_on = functions(args, model, optimizer, data)
    state = run_tf.State(world, model, optimizer, lambda: average_statistics(model))

    steps = STEPS[device] * args.batch_size * args.batches_per_allreduce * world.size
    # A short last step is left out: the mean over one image, or none, is no mean.
    run.begin(len(data.train) if data else steps, state, drop_last=True)
    blank = tf.zeros((2, args.image_size, args.image_size, 3), tf.uint8), tf.zeros(2, tf.int64)
    stream = training_images(args, data, run)
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's images of a step.
            run.rate = distributed.decayed_rate(args, world.size, run.epochs_done)
            optimizer.learning_rate.assign(run.rate)
            before: list[Any] = []
            *parts, last = run_tf.passes(batch, args.adasum)
            for _, weight in parts:
                x, y = run.read(lambda: next(stream), blank)
                before = run_tf.add(before, gradients(x, y, weight))
            x, y = run.read(lambda: next(stream), blank)
            run.step_done(step(x, y, last[1], before))
        run.epoch_done((lambda: evaluate(run, model, test_on, data.test)) if data else None)
    large = args.model == "resnet50"
    known = results.utilization(run, FLOPS * (args.image_size / 224) ** 2) if large else {}
    run.finish((v.numpy() for v in model.trainable_variables), **known)


if __name__ == "__main__":
    main()
