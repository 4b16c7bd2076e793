"""The trainers' speed on one GPU, beside scripts in plain PyTorch that were tuned by hand.

Same model, batch, precision and shape, `--synthetic`, one rank: Horovod exchanges nothing.
"""

from __future__ import annotations

from pathlib import Path

from .machine import Bench, Failed

HERE = Path(__file__).resolve().parent
HEADINGS = ("trained", "reference", "trainer", "ratio")
RESNET = ("torch_resnet", "--", "--synthetic", "--batch-size", "256", "--epochs", "6")
GPT = (
    *("torch_lm", "--", "--synthetic", "--width", "768", "--heads", "12", "--layers", "12"),
    *("--context", "1024", "--vocabulary", "64", "--batch-size", "32", "--epochs", "5"),
)
CASES = (
    ("ResNet-50, batch 256", RESNET, "resnet", "256"),
    ("GPT of 86 M weights, context 1,024, batch 32", GPT, "gpt", "32"),
)


def measure(bench: Bench) -> list[list[str]]:
    """Return a row for each trainer, without and with torch.compile."""
    rows = []
    for name, trainer, reference, batch in CASES:
        for more in ((), ("--compile",)):
            title = f"{name}{', torch.compile' if more else ''}"
            try:
                theirs = _reference(bench, reference, batch, more)
                ours = _trainer(bench, (*trainer, *more))
            except Failed as error:
                rows.append([title, "FAILED", " ".join(str(error).split())[:200], ""])
            else:
                rows.append([title, f"{theirs:,.0f}/s", f"{ours:,.0f}/s", f"{ours / theirs:.3f}"])
            print(": ".join(rows[-1]), flush=True)
    return rows


def _reference(bench: Bench, model: str, batch: str, more: tuple[str, ...]) -> float:
    bench.launch(str(HERE / "reference.py"), "--", model, "--batch-size", batch, *more)
    return float(bench.result()["per_s"])


def _trainer(bench: Bench, words: tuple[str, ...]) -> float:
    bench.launch(*words)
    result = bench.result()
    return float(next(result[key] for key in result if key.endswith("_per_s") and result[key]))
