"""ResNets for PyTorch: ImageNet's (He et al. 2015, arXiv:1512.03385, table 1) and CIFAR-10's.

ResNet-50 is "version 1.5": where a block halves the picture, its middle convolution does it, and
not its first one. That is what torchvision and NVIDIA's benchmarks have.
"""

from __future__ import annotations

import torch
from torch import nn


def build(name: str, classes: int) -> nn.Module:
    """Build a ResNet by its name (see `STAGES`) for inputs (count, 3, size, size)."""
    block, widths, depths = STAGES[name]
    if widths[0] == 64:
        stem = [*_normalised(3, 64, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    else:
        stem = [*_normalised(3, widths[0], 3), nn.ReLU()]
    model = nn.Sequential(*stem, *_stages(block, widths, depths))
    model.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten()])
    model.append(nn.Linear(widths[-1] * block.growth, classes))
    model.apply(_begin)
    return model


def decayed(model: nn.Module, decay: float) -> list[dict[str, object]]:
    """Return the weights for an optimiser: weight decay is for matrices, not scales and biases."""
    weights = list(model.parameters())
    return [
        {"params": [one for one in weights if one.ndim > 1], "weight_decay": decay},
        {"params": [one for one in weights if one.ndim <= 1], "weight_decay": 0.0},
    ]


class Basic(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """Two convolutions, around which the input is led and added."""

    growth = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_normalised(inputs, width, 3, stride), nn.ReLU(), *_normalised(width, width, 3)
        )
        self.around = _around(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (count, inputs, h, w) to (count, width * growth, h / stride, w / stride)."""
        return torch.relu(self.around(x) + self.body(x))


class Bottleneck(Basic):
    """Three convolutions, of which the middle one sees fewer channels."""

    growth = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        nn.Module.__init__(self)
        outputs = width * self.growth
        self.body = nn.Sequential(
            *_normalised(inputs, width, 1), nn.ReLU(),
            *_normalised(width, width, 3, stride), nn.ReLU(),
            *_normalised(width, outputs, 1),
        )  # fmt: skip
        self.around = _around(inputs, outputs, stride)


#: Kind of block, widths of the stages, and blocks in each.
STAGES: dict[str, tuple[type[Basic], tuple[int, ...], tuple[int, ...]]] = {
    "resnet50": (Bottleneck, (64, 128, 256, 512), (3, 4, 6, 3)),
    "resnet18": (Basic, (64, 128, 256, 512), (2, 2, 2, 2)),
    "resnet110": (Basic, (16, 32, 64), (18, 18, 18)),
    "resnet20": (Basic, (16, 32, 64), (3, 3, 3)),
}


def _stages(
    block: type[Basic], widths: tuple[int, ...], depths: tuple[int, ...]
) -> list[nn.Module]:
    """Return all blocks; each stage but the first halves the picture in its first block."""
    blocks, inputs = [], widths[0]
    for number, (width, depth) in enumerate(zip(widths, depths)):
        for place in range(depth):
            blocks.append(block(inputs, width, 2 if number and not place else 1))
            inputs = width * block.growth
    return blocks


def _around(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return the way around a block, with a convolution where its output has another shape."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(*_normalised(inputs, outputs, 1, stride))


def _normalised(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


def _begin(module: nn.Module) -> None:
    """Draw first weights; each block begins as what is led around it (Goyal et al. 2017)."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, Basic):
        nn.init.zeros_(module.body[-1].weight)
