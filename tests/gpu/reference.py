"""ResNet-50 and a GPT in plain PyTorch, tuned by hand: what the trainers are compared with.

bfloat16 autocast, channels_last, cuDNN's search, fused optimizers, one batch that stays on the GPU,
or images that torchvision decodes in a worker process for each CPU.
Writes the median of three windows into result.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, CONTEXT, VOCABULARY = 768, 12, 12, 1024, 64
WARM_UP, WINDOWS, STEPS = 8, 3, 15
DEVICE = "cuda"
Forward = Callable[[], torch.Tensor]


class Layer(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        hidden = nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp = nn.Sequential(hidden, nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.first(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.second(x))


class Gpt(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.layers(self.tokens(tokens) + self.positions(places)))


def resnet(batch: int, data: str) -> tuple[nn.Module, torch.optim.Optimizer, Forward, int]:
    """Return model, optimizer, the loss of a batch, and the samples in it."""
    from torchvision.models import resnet50

    model = resnet50().to(DEVICE).to(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    images = torch.randn(batch, 3, 224, 224, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device=DEVICE)
    batches = decoded(data, batch) if data else itertools.repeat((images, labels))

    def loss() -> torch.Tensor:
        x, y = next(batches)
        return functional.cross_entropy(model(x), y)

    return model, sgd, loss, batch


def decoded(folder: str, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches of the files in train/CLASS, decoded and augmented by torchvision."""
    from torchvision import datasets, transforms

    steps = transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()
    change = transforms.Compose([*steps, transforms.PILToTensor()])
    files = datasets.ImageFolder(f"{folder}/train", change)
    endless = torch.utils.data.RandomSampler(files, replacement=True, num_samples=10**7)
    loader = torch.utils.data.DataLoader(
        files,
        batch,
        sampler=endless,
        num_workers=len(os.sched_getaffinity(0)),
        pin_memory=True,
    )
    mean, std = (
        torch.tensor(values, device=DEVICE).view(1, 3, 1, 1) * 255
        for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    for pixels, labels in loader:
        x = pixels.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
        yield (x.float() - mean) / std, labels.to(DEVICE, non_blocking=True)


def gpt(batch: int, _: str) -> tuple[nn.Module, torch.optim.Optimizer, Forward, int]:
    """Return the same for the language model; its samples are tokens."""
    model = Gpt().to(DEVICE)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    text = torch.randint(0, VOCABULARY, (batch, CONTEXT + 1), device=DEVICE)

    def loss() -> torch.Tensor:
        return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    return model, adam, loss, batch * CONTEXT


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=("resnet", "gpt"))
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--data", default="", help="a folder with train/CLASS/*.jpg")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    make = {"resnet": resnet, "gpt": gpt}[options.model]
    _, optimizer, loss, count = make(options.batch_size, options.data)

    def forward() -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            return loss()

    compute = torch.compile(forward) if options.compile else forward

    def steps(number: int) -> float:
        began = time.perf_counter()
        for _ in range(number):
            optimizer.zero_grad(set_to_none=True)
            compute().backward()
            optimizer.step()
        torch.cuda.synchronize()
        return count * number / (time.perf_counter() - began)

    # A worker decodes two batches ahead: those are no measure of how fast it is.
    steps(3 * len(os.sched_getaffinity(0)) if options.data else WARM_UP)
    rates = [steps(STEPS) for _ in range(WINDOWS)]
    result = {"per_s": statistics.median(rates), "windows": rates}
    Path(os.environ["OUTPUT_DIR"], "result.json").write_text(json.dumps(result))


main()
