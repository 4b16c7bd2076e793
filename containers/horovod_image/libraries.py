"""Uses what the trainers need besides the frameworks; the self-test runs its parts in the image.

    python -m horovod_image.libraries trainers    (or verbs)

What cannot be used ends it with a traceback.
"""

from __future__ import annotations

import ctypes
import glob
import sys


def use_libraries() -> None:
    """Import what the trainers import; make and call small models."""
    import accelerate
    import lightning
    import peft
    import PIL.Image
    import tensorboard
    import torch.utils.tensorboard  # noqa: F401  its SummaryWriter
    import torchvision
    import torchvision.datasets
    import transformers
    from torchvision.transforms import Compose, RandomResizedCrop, ToTensor, v2

    small = transformers.BertConfig(num_hidden_layers=1)
    transformers.AutoModelForSequenceClassification.from_config(small)
    picture = Compose([RandomResizedCrop(64), ToTensor()])(PIL.Image.new("RGB", (80, 80)))
    torchvision.models.resnet18()(v2.RandomHorizontalFlip()(picture)[None])
    used = accelerate, lightning, peft, PIL, tensorboard, torchvision, transformers
    print("libraries:", ", ".join(f"{package.__name__} {package.__version__}" for package in used))


def compile_function() -> None:
    """Inductor compiles C++ with g++ for CPUs, Triton a launcher in C with gcc for GPUs."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.linspace(-1, 1, 64, device=device)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x).sin() + x.mean()

    torch.testing.assert_close(torch.compile(function)(x), function(x))
    print("torch.compile:", device)


def open_verbs() -> None:
    """Open what NCCL, UCX and libfabric open by name to reach InfiniBand and RoCE cards."""
    for name in ("libibverbs.so.1", "librdmacm.so.1"):
        ctypes.CDLL(name)
    providers = glob.glob("/usr/lib/*/libibverbs/lib*-rdmav*.so")
    if not any("mlx5" in path for path in providers):
        raise FileNotFoundError(f"no provider for mlx5 is among {providers}")
    print("providers of libibverbs:", len(providers))


if __name__ == "__main__":
    if sys.argv[1:] == ["verbs"]:
        open_verbs()
    else:
        use_libraries()
        compile_function()
