"""What the warm-up of the learning rate is for: digits with one rank and with 16.

Run: python -m tests.bench.warmup

Sixteen ranks learn with sixteen times the rate of one. From the first step on that is too much;
reached step by step it is as good as one rank's. Ranks share the machine's cores, so this takes a
few minutes and measures no speed.
"""

from __future__ import annotations

import json
import sys

from tests.cluster.state import USER

from . import cluster
from .errors import BenchError

RANKS = 16
WARMUP_EPOCHS = 5
SETTINGS = "--batch-size 8 --base-lr 0.02 --epochs 16 --dropout 0"


def accuracy(ranks: int, warmup_epochs: int) -> float:
    """Train torch_mnist in the image on the login node; return what it reached."""
    folder = cluster.run(["mktemp", "-d", f"/scratch/{USER}/warmup.XXXXXX"]).strip()
    start = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
    trainer = ["python", "-m", "recipes.torch_mnist", *SETTINGS.split(), "--output", folder]
    trainer += ["--warmup-epochs", str(warmup_epochs)]
    try:
        container = ["apptainer", "exec", "--bind", folder, cluster.IMAGE]
        cluster.run(["env", "OMP_NUM_THREADS=1", *container, *start, *trainer])
        result = json.loads((cluster.on_host(folder) / "result.json").read_text(encoding="utf-8"))
        return float(result["accuracy"])
    finally:
        cluster.run(["rm", "-rf", folder])


def main() -> None:
    """Print the table."""
    cluster.require_image()
    print(f"torch_mnist {SETTINGS}\n\n| ranks | warm-up | accuracy |\n|---|---|---|")
    for ranks, warmup in ((1, 0), (RANKS, WARMUP_EPOCHS), (RANKS, 0)):
        told = f"{warmup} epochs" if warmup else "none"
        print(f"| {ranks} | {told} | {accuracy(ranks, warmup):.3f} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(str(error))
