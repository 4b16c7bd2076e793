"""Where Horovod can combine gradients by Adasum."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .errors import UserError


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
