"""The command line of a trainer: the options that all of them have, under the same names.

Standard library only: the `runner` command asks a trainer for its options where no framework is.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from .errors import UserError

T = TypeVar("T", int, float)
#: How the learning rate may fall (see `common.decay`).
SCHEDULES = ("constant", "step", "cosine")


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises `UserError`, so that one rank speaks for all of them.

    `not_here` maps the names of common options that this trainer cannot honour to the reason:
    to accept them in silence would be a lie.
    """

    def __init__(
        self, trainer: str, description: str, not_here: Mapping[str, str] | None = None
    ) -> None:
        # Without abbreviations: `--epoch 3` is a typing error, not `--epochs 3`.
        super().__init__(
            prog=trainer,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        self.not_here = not_here or {}

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\nAll options: python -m recipes.{self.prog} --help")

    def settings(self, argv: Sequence[str] | None) -> Namespace:
        """Read the command line; raise `UserError` for what is wrong in it."""
        args = self.parse_args(argv)
        self.refuse(args, self.not_here)
        if args.adasum and args.gradient_predivide_factor != 1:
            raise UserError("--gradient-predivide-factor is part of a mean; --adasum has none")
        return args

    def refuse(self, args: Namespace, not_here: Mapping[str, str]) -> None:
        """Raise `UserError` for an option that was given, and is not for this trainer."""
        for name, reason in not_here.items():
            if getattr(args, name) != self.get_default(name):
                option = "--" + name.replace("_", "-")
                raise UserError(f"{option} is not for {self.prog}: {reason}")


def _number(kind: Callable[[str], T], least: int) -> Callable[[str], T]:
    """Return what reads a finite number of at least `least` (an argparse type)."""

    def read(text: str) -> T:
        try:
            value = kind(text)
        except ValueError:
            name = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {name}") from None
        if not (math.isfinite(value) and value >= least):
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
        return value

    return read


positive_int, natural_int, natural_float = _number(int, 1), _number(int, 0), _number(float, 0)


def positive_float(text: str) -> float:
    """Read a finite number above 0 (an argparse type)."""
    value = natural_float(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def fraction(text: str) -> float:
    """Read a number from 0 up to, not including, 1 (an argparse type)."""
    value = natural_float(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"must be less than 1, not {text}")
    return value


def steps(text: str) -> tuple[int, int]:
    """Read `FIRST-LAST`, or one number, as steps counted from 1 (an argparse type)."""
    first, dash, last = text.partition("-")
    begin = positive_int(first)
    end = positive_int(last) if dash else begin
    if end < begin:
        raise argparse.ArgumentTypeError(f"{text} ends before it begins")
    return begin, end


def without_horovod(who: str, *more: str) -> dict[str, str]:
    """Return why Horovod's options are not for a trainer in which `who` exchanges gradients."""
    reason = f"it is Horovod's, and here {who} exchanges gradients"
    names = ("adasum", "gradient_predivide_factor", *more)
    return {**dict.fromkeys(names, reason), "timeline": f"{reason}: --profile shows it"}


def add_common(parser: Parser, *, epochs: int, batch_size: int, base_lr: float, warmup: float,
               log_interval: int = 100) -> None:  # fmt: skip
    """Add the options that every trainer has; the arguments are this trainer's defaults."""
    add = parser.add_argument
    add("--epochs", type=positive_int, default=epochs, help="passes over the training set")
    add("--max-steps", type=positive_int, help="stop after this many steps, for a trial")
    add("--batch-size", type=positive_int, default=batch_size,
        help="samples for each rank and backward pass")  # fmt: skip
    # One rank's rate: with N ranks a step sees N times the samples, and the rate grows to N times.
    add("--base-lr", type=positive_float, default=base_lr, help="learning rate for one rank")
    add("--warmup-epochs", type=natural_float, default=warmup, help="epochs to reach N times it")
    # The test set does not depend on it, so results with different seeds can be compared.
    add("--seed", type=natural_int, default=1, help="of first weights and sample order")
    add("--device", choices=("auto", "cpu", "gpu"), default="auto", help="where to compute")
    one_of = parser.add_mutually_exclusive_group().add_argument
    one_of("--bf16", action="store_true", help="compute in bfloat16 where it is safe")
    one_of("--amp", action="store_true", help="compute in float16 where it is safe")
    add("--batches-per-allreduce", type=positive_int, default=1,
        help="backward passes before gradients are exchanged")  # fmt: skip
    # Halves what travels between the ranks, at the price of rounding.
    add("--fp16-allreduce", action="store_true", help="exchange gradients as 16-bit floats")
    add("--adasum", action="store_true", help="combine gradients by Adasum, not by their mean")
    # Divides gradients by this before they are summed, and by the rest after: against overflow.
    add("--gradient-predivide-factor", type=positive_float, default=1.0,
        help="part of the mean's division that is done before summing")  # fmt: skip
    add("--workers", type=natural_int, default=0, help="processes that load data; 0: this one")
    # The launcher sets DATA_DIR, OUTPUT_DIR and RESUME.
    add("--data", default=os.environ.get("DATA_DIR"), help="folder with the data set")
    add("--output", default=os.environ.get("OUTPUT_DIR") or "out",
        help="folder for results and checkpoints")  # fmt: skip
    add("--log-interval", type=positive_int, default=log_interval, help="steps between log lines")
    add("--checkpoint-every", type=natural_int, default=0, metavar="STEPS",
        help="steps between checkpoints; 0: at each epoch's end")  # fmt: skip
    add("--keep", type=positive_int, default=2, help="checkpoints to keep")
    add("--resume", default=os.environ.get("RESUME") or "never", metavar="never|auto|PATH",
        help="go on from the newest checkpoint of --output, or from PATH")  # fmt: skip
    add("--profile", type=steps, metavar="FIRST-LAST", help="steps of rank 0 to profile")
    add("--timeline", action="store_true", help="write Horovod's timeline into --output")


def allow_timeline(argv: Sequence[str] | None) -> None:
    """Let Horovod record a timeline later on, if `--timeline` asks for one.

    Before `hvd.init()`: Horovod 0.28 starts one within a run only if it was told so at its start.
    """
    if "--timeline" in (sys.argv[1:] if argv is None else argv):
        os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")


def check_cpu(args: Namespace) -> None:
    """Raise `UserError` for options that a rank without a GPU cannot honour."""
    if args.device == "gpu":
        raise UserError("--device gpu: this rank sees no GPU. Was one asked for? --device auto")
    if args.amp:
        raise UserError("--amp needs a GPU for its float16; --bf16 works on CPUs too")


def check_adasum(args: Namespace, hvd: Any) -> None:
    """Raise `UserError` if `--adasum` is asked for where Horovod 0.28 would break off.

    It pairs ranks, so their number must be a power of two, and on CPUs it is there with MPI only.
    """
    if not args.adasum:
        return
    if hvd.size() & (hvd.size() - 1):
        raise UserError(f"--adasum needs 2, 4, 8, 16, ... ranks, not {hvd.size()}")
    if not hvd.mpi_enabled():
        raise UserError("--adasum needs the MPI controller, and this run has Gloo's")
