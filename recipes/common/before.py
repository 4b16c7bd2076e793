"""What has to be done before `hvd.init()`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def before_init(argv: Sequence[str] | None) -> None:
    """Let Horovod record a timeline later on, if `--timeline` asks for one.

    Horovod 0.28 starts one within a run only if it was told so at its start.
    """
    if "--timeline" in (sys.argv[1:] if argv is None else argv):
        os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")
