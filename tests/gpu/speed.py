"""The trainers' speed on one GPU, beside scripts in plain PyTorch that were tuned by hand.

Same model, batch, precision and shape, one rank: Horovod exchanges nothing. The last rows have
several ranks, which exchange by NCCL: Horovod beside DDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .checks import launch_ranks
from .machine import Absent, Bench, Failed, gpus

HERE = Path(__file__).resolve().parent
HEADINGS = ("trained", "reference", "trainer", "ratio")
RESNET = ("torch_resnet", "--", "--batch-size", "256", "--epochs", "6")
GPT = (
    *("torch_lm", "--", "--synthetic", "--width", "768", "--heads", "12", "--layers", "12"),
    *("--context", "1024", "--vocabulary", "64", "--batch-size", "32", "--epochs", "5"),
)
CASES = (
    ("ResNet-50, batch 256", (*RESNET, "--synthetic"), "resnet", "256"),
    ("GPT of 86 M weights, context 1,024, batch 32", GPT, "gpt", "32"),
)
# As large as ImageNet's are in the mean, 500 x 375 pixels, 110 KB; each under four names, so that
# what is read ahead while a trainer evaluates is a small part of an epoch.
JPEGS = """\
import multiprocessing, os
import numpy as np
from PIL import Image

def write(number):
    rng = np.random.default_rng(number)
    part = f"{'train' if number % 64 else 'val'}/n{number % 10:08d}"
    os.makedirs(part, exist_ok=True)
    small = Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8)).resize((500, 375))
    noisy = np.asarray(small, np.int16) + rng.normal(0, 10, (375, 500, 3)).astype(np.int16)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(f"{part}/{number}.jpg", quality=90)
    for more in range(3 if number % 64 else 0):
        os.link(f"{part}/{number}.jpg", f"{part}/{number}-{more}.jpg")

os.chdir("jpegs")
with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
    pool.map(write, range(8192), 64)
"""


def measure(bench: Bench) -> list[list[str]]:
    """Return a row for each comparison."""
    rows = []
    for title, reference, trainer in _comparisons(bench):
        try:
            theirs, ours = reference(), trainer()
        except Failed as error:
            rows.append([title, "FAILED", " ".join(str(error).split())[:200], ""])
        except Absent as error:
            rows.append([title, "not run", str(error), ""])
        else:
            rows.append([title, f"{theirs:,.0f}/s", f"{ours:,.0f}/s", f"{ours / theirs:.3f}"])
        print(": ".join(rows[-1]), flush=True)
    return rows


def _comparisons(
    bench: Bench,
) -> Iterator[tuple[str, Callable[[], float], Callable[[], float]]]:
    """Yield a title, what measures the reference, and what measures the trainer."""
    for name, trainer, model, batch in CASES:
        for more in ((), ("--compile",)):
            words = (model, "--batch-size", batch, *more)
            title = f"{name}{', torch.compile' if more else ''}"
            yield title, partial(_reference, bench, *words), partial(_trainer, bench, trainer, more)
    data, epochs = ("--data", str(bench.folder / "jpegs")), ("--epochs", "3")
    yield (
        "ResNet-50, batch 256, JPEG files",
        partial(_decoding_reference, bench, "resnet", "--batch-size", "256", *data),
        partial(_trainer, bench, RESNET, (*data, *epochs)),
    )
    for name, trainer, *_ in CASES:
        ddp = ("--exchange", "ddp")
        yield (
            f"{name} for each of {len(gpus())} GPUs: DDP, Horovod",
            partial(_on_all_gpus, bench, trainer, ddp),
            partial(_on_all_gpus, bench, trainer),
        )


def _reference(bench: Bench, *words: str) -> float:
    bench.launch(str(HERE / "reference.py"), "--", *words)
    return float(bench.result()["per_s"])


def _decoding_reference(bench: Bench, *words: str) -> float:
    """Write the images, and measure."""
    (bench.folder / "jpegs").mkdir()
    (bench.folder / "jpegs.py").write_text(JPEGS, encoding="utf-8")
    bench.launch("jpegs.py")
    return _reference(bench, *words)


def _trainer(bench: Bench, trainer: tuple[str, ...], more: tuple[str, ...]) -> float:
    bench.launch(*trainer, *more)
    return _rate(bench)


def _on_all_gpus(bench: Bench, trainer: tuple[str, ...], more: tuple[str, ...] = ()) -> float:
    count = len(gpus())
    if count < 2:
        # Two ranks on one GPU compute in turns: an allreduce of 1 KB took 10 ms.
        raise Absent("one GPU: nothing is exchanged between GPUs")
    launch_ranks(bench, count, *trainer, *more)
    return _rate(bench)


def _rate(bench: Bench) -> float:
    result = bench.result()
    return float(next(result[key] for key in result if key.endswith("_per_s") and result[key]))
