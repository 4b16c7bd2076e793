"""The checks: each returns one line of evidence, or raises Failed or Absent."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .machine import Absent, Bench, Failed, gpus, read

HERE = Path(__file__).resolve().parent
# Each for a few steps: the trainer, its options, the module without which it is left out.
TRAINERS = (
    ("torch_mnist", ("--epochs", "1"), "sklearn"),
    ("torch_mnist", ("--exchange", "ddp", "--epochs", "1"), "sklearn"),
    ("torch_resnet", ("--synthetic", "--epochs", "1", "--max-steps", "5"), "torch"),
    ("torch_lm", ("--epochs", "1", "--max-steps", "20"), "torch"),
    ("torch_finetune", ("--epochs", "1", "--max-steps", "3"), "transformers"),
    ("lightning_mnist", ("--epochs", "1"), "lightning"),
    ("tf_mnist", ("--epochs", "1"), "tensorflow"),
    ("tf_resnet", ("--synthetic", "--epochs", "1", "--max-steps", "5"), "tensorflow"),
    ("keras_mnist", ("--epochs", "1"), "tensorflow"),
)
PROBE = """\
import ctypes, importlib.util, json, os, sys
import torch
nccl = ctypes.c_int()  # torch.cuda.nccl has the version that torch was compiled with
if torch.cuda.is_available():
    ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(nccl))
names = ("sklearn", "transformers", "lightning", "tensorflow", "horovod")
result = {
    "python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda,
    "gpu": torch.cuda.is_available(), "architectures": torch.cuda.get_arch_list(),
    "nccl": [nccl.value // 10000, nccl.value // 100 % 100],
    "modules": ["torch", *(name for name in names if importlib.util.find_spec(name))],
}
with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
    json.dump(result, file)
"""
# The last rank comes a minute late to the second operation.
HANG = """\
import os, time
import torch
import torch.distributed as dist
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if torch.cuda.nccl.version() < (2, 24):
    print("NCCL has no RAS before 2.24", flush=True)
torch.cuda.set_device(rank % torch.cuda.device_count())
how = {} if size > 1 else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
dist.init_process_group("nccl", **how)
value = torch.ones(4, device="cuda")
dist.all_reduce(value)
torch.cuda.synchronize()
print("begins", rank, flush=True)
if rank == size - 1:
    time.sleep(60)
dist.all_reduce(value)
torch.cuda.synchronize()
dist.destroy_process_group()
"""


def driver(bench: Bench) -> str:
    """The ranks see the GPU."""
    script = bench.folder / "probe.py"
    script.write_text(PROBE, encoding="utf-8")
    bench.launch("probe.py")
    probe = bench.result()
    if not probe["gpu"]:
        raise Failed(f"torch {probe['torch']} sees no GPU (its CUDA: {probe['cuda']})")
    nccl = ".".join(map(str, probe["nccl"]))
    return f"Python {probe['python']}, torch {probe['torch']}, CUDA {probe['cuda']}, NCCL {nccl}"


def probed(bench: Bench) -> dict[str, Any]:
    """Return what the probe of `driver` found in the image."""
    for path in bench.folder.glob("runs/probe-*/result.json"):
        return read(path)
    raise Absent("the probe did not run")


def most_ranks(bench: Bench) -> int:
    """Return one rank for each GPU, or two on one GPU where NCCL can do that."""
    count = len(gpus())
    return 2 if count == 1 and probed(bench)["nccl"] >= [2, 30] else count


def launch_ranks(bench: Bench, count: int, *words: str) -> str:
    """Launch ranks on as many GPUs, or all on the one that there is."""
    here = min(count, len(gpus()))
    shared = ("--env", "NCCL_MULTI_RANK_GPU_ENABLE=1") if here < count else ()
    return bench.launch("--ntasks", str(count), *shared, *words, gpus=here)


def operations(bench: Bench) -> str:
    """Horovod's operations and data types are right on CUDA tensors."""
    _needs(bench, "horovod")
    count = most_ranks(bench)
    output = launch_ranks(bench, count, "--follow", str(HERE / "horovod_types.py"))
    if "data types: all right" not in output:
        raise Failed(output[-2000:])
    return f"all right, {count} ranks"


def trains(trainer: str, words: tuple[str, ...], module: str, bench: Bench) -> str:
    """A packaged trainer takes a few steps on the GPU."""
    _needs(bench, module)
    bench.launch(trainer, "--", *words)
    result = bench.result()
    if result["trainer"] != trainer or "cpu" in result["device"].lower():
        raise Failed(f"it ran on {result['device']}")
    return f"{result['steps']} steps on {result['device']}"


def compiles(bench: Bench) -> str:
    """torch.compile works on the GPU (Triton)."""
    bench.launch("torch_lm", "--", "--epochs", "1", "--max-steps", "5", "--compile")
    return "torch_lm --compile: 5 steps"


def refuses_two_ranks(bench: Bench) -> str:
    """Two ranks on one GPU are refused before the start."""
    output = bench.launch("--ntasks", str(len(gpus()) + 1), "torch_mnist", code=80)
    return output.strip().splitlines()[0]


def explains_memory(bench: Bench) -> str:
    """A failure for want of GPU memory is named."""
    words = ("--synthetic", "--epochs", "1", "--batch-size", "200000")
    bench.launch("torch_resnet", "--", *words, code=None)
    output = bench.runner("explain")
    return _line_with(output, "memory")


def explains_no_gpu(bench: Bench) -> str:
    """`--device gpu` where no GPU is visible is told as that."""
    output = bench.launch(
        "torch_mnist", "--", "--device", "gpu", code=None, gpus=0, CUDA_VISIBLE_DEVICES=""
    )
    return _line_with(output, "GPU")


def asks_nccl(bench: Bench) -> str:
    """A hang is told with what NCCL's RAS knows of the ranks."""
    script = bench.folder / "hang.py"
    script.write_text(HANG, encoding="utf-8")
    count = most_ranks(bench)
    output = launch_ranks(bench, count, "--follow", "--stall-after", "5", "hang.py")
    if "NCCL has no RAS" in output:
        raise Absent("NCCL has no RAS before 2.24")
    said = _line_with(output, "NCCL's RAS: ").partition("NCCL's RAS: ")[2]
    if count > 1 and f"Rank {count - 1}" not in said:
        raise Failed(said)
    return said


def ranks_agree(trainer: str, words: tuple[str, ...], many: tuple[str, ...], bench: Bench) -> str:
    """N ranks learn over NCCL what one rank learns.

    `many` are their options besides; `{rate}` and `{batch}` in options stand for the shares of a
    rank.
    """
    count = most_ranks(bench)
    if count < 2:
        raise Absent("one GPU, and NCCL before 2.30: nothing is exchanged between ranks")
    curves = []
    for ranks, more in ((1, ()), (count, many)):
        share = {"batch": 720 // ranks, "rate": 0.05 / ranks, "root": 0.002 / math.sqrt(ranks)}
        settings = [word.format(**share) for word in (*words, *more)]
        launch_ranks(bench, ranks, trainer, "--", "--precision", "fp32", *settings)
        result = bench.result()
        if result["world_size"] != ranks:
            raise Failed(f"a world of {result['world_size']} ranks, not {ranks}")
        curves.append(bench.losses())
    alone, together = curves
    apart = max(abs(b / a - 1) for a, b in zip(alone, together))
    if len(alone) != len(together) or not apart < 1e-3:
        raise Failed(f"losses of one rank {alone}, of {count} ranks {together}")
    return f"{count} ranks, {len(alone)} epochs: losses within {apart:.0e}"


def _needs(bench: Bench, module: str) -> None:
    if module not in probed(bench)["modules"]:
        raise Absent(f"the image has no {module}")


def _line_with(output: str, word: str) -> str:
    for line in output.splitlines():
        if word in line:
            return line.strip()
    raise Failed(f"no line says {word!r}:\n{output[-2000:]}")


DIGITS = (
    *("--epochs", "3", "--dropout", "0", "--warmup-epochs", "0"),
    *("--batch-size", "{batch}", "--base-lr", "{rate}"),
)
TOKENS = ("--epochs", "2", "--batch-size", "{batch}", "--base-lr", "{root}")
AGREE: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("torch_mnist", DIGITS, ()),
    ("torch_mnist", ("--exchange", "ddp", *DIGITS), ()),
    ("torch_lm", TOKENS, ("--exchange", "fsdp")),
)
CHECKS: tuple[tuple[str, Callable[[Bench], str]], ...] = (
    ("the ranks see the GPU", driver),
    ("Horovod's operations and types", operations),
    *((name, partial(trains, name, words, module)) for name, words, module in TRAINERS),
    ("torch.compile", compiles),
    ("more ranks than GPUs are refused", refuses_two_ranks),
    ("out of GPU memory is explained", explains_memory),
    ("--device gpu without a GPU is explained", explains_no_gpu),
    *((f"ranks agree: {case[0]}", partial(ranks_agree, *case)) for case in AGREE),
    ("NCCL's RAS tells who hangs", asks_nccl),
)
