"""ResNets for TensorFlow: ImageNet's (He et al. 2015, arXiv:1512.03385, table 1) and CIFAR-10's.

ResNet-50 is "version 1.5": where a block halves the picture, its middle convolution does it, and
not its first one. That is what NVIDIA's benchmarks have, and torchvision.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

layers = tf.keras.layers
BOTTLENECK = 4  # by how much the last convolution of three widens
#: Convolutions in a block, widths of the stages, and blocks in each.
STAGES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "resnet50": (3, (64, 128, 256, 512), (3, 4, 6, 3)),
    "resnet18": (2, (64, 128, 256, 512), (2, 2, 2, 2)),
    "resnet110": (2, (16, 32, 64), (18, 18, 18)),
    "resnet20": (2, (16, 32, 64), (3, 3, 3)),
}


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
