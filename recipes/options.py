"""Options that all trainers have, and the types of options.

Standard library only: `runner` reads a trainer's options where no framework is installed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from recipes.distributed import UserError


def option(name: str, default: str) -> str:
    """Return an option's value, where it decides what is imported before options are parsed."""
    values = [word.partition("=")[2] for word in sys.argv if word.startswith(f"{name}=")]
    values += [value for word, value in zip(sys.argv, sys.argv[1:]) if word == name]
    return values[-1] if values else default


def at_least(least: float, below: float = math.inf) -> Callable[[str], Any]:
    """Return an argparse type: a number of this range, a whole one if `least` is an int."""

    def read(text: str) -> Any:
        try:
            value = type(least)(text)
        except ValueError:
            kind = "a whole number" if isinstance(least, int) else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}") from None
        if not (math.isfinite(value) and value >= least):
            raise argparse.ArgumentTypeError(f"must be at least {least:g}, not {text}")
        if value >= below:
            raise argparse.ArgumentTypeError(f"must be less than {below:g}, not {text}")
        return value

    return read


def first_last(text: str) -> tuple[int, int]:
    """Read `FIRST-LAST`, or one number, as steps counted from 1 (an argparse type)."""
    first, _, last = text.partition("-")
    steps: tuple[int, int] = at_least(1)(first), at_least(1)(last or first)
    if steps[1] < steps[0]:
        raise argparse.ArgumentTypeError(f"{text} ends before it begins")
    return steps


class BareParser(argparse.ArgumentParser):
    """Raises `UserError`, for rank 0 to print; `--epoch 3` is a mistake, not `--epochs 3`."""

    def __init__(self, trainer: str, about: str) -> None:
        helper = argparse.ArgumentDefaultsHelpFormatter
        super().__init__(trainer, None, about, allow_abbrev=False, formatter_class=helper)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\nAll options: --help")

    def add_output(self, text: str) -> None:
        default = os.environ.get("OUTPUT_DIR") or "out"  # set by the launcher
        self.add_argument("--output", default=default, help=text)

    def add_data(self, text: str) -> None:
        self.add_argument("--data", default=os.environ.get("DATA_DIR"), help=text)

    def add_device(self) -> None:
        """Add where and how precisely to compute."""
        add = self.add_argument
        add("--device", choices=("auto", "cpu", "gpu"), default="auto", help="where to compute")
        text = "autocast to it; default: bf16 on GPUs with bfloat16 units, else fp32"
        add("--precision", choices=("bf16", "fp32"), help=text)


class Parser(BareParser):
    """A parser with the options that all trainers have."""

    def __init__(self, trainer: str, about: str) -> None:
        super().__init__(trainer, about)
        add = self.add_argument
        self.add_output("folder for results and checkpoints")
        text = "continue from the newest checkpoint of --output, or from PATH"
        default, words = os.environ.get("RESUME") or "never", "never|auto|PATH"
        add("--resume", default=default, metavar=words, help=text)
        text = "steps between checkpoints; 0: at the end of each epoch"
        add("--checkpoint-every", type=at_least(0), default=0, metavar="STEPS", help=text)
        add("--keep", type=at_least(1), default=2, help="number of checkpoints to keep")
        add("--log-interval", type=at_least(1), default=100, help="steps between log lines")
        add("--max-steps", type=at_least(1), help="stop after this many steps")
        text = "steps to profile, on each rank"
        add("--profile", type=first_last, metavar="FIRST-LAST", help=text)
        self.add_data("folder with the dataset")

        add("--seed", type=at_least(0), default=1, help="random seed (initialization, shuffling)")
        self.add_device()

    def add_accumulation(self) -> None:
        """Add the number of backward passes of a step."""
        text = "gradient accumulation steps"
        self.add_argument("--batches-per-allreduce", type=at_least(1), default=1, help=text)

    def add_horovod(self, adasum: bool = True) -> None:
        """Add what Horovod can do with gradients."""
        add = self.add_argument
        add("--fp16-allreduce", action="store_true", help="exchange gradients in float16")
        if adasum:
            text = "combine gradients by Adasum, not by their mean"
            add("--adasum", action="store_true", help=text)
        add("--timeline", action="store_true", help="write Horovod's timeline into --output")
