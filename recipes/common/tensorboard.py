"""Scalars for TensorBoard, written by rank 0."""

from __future__ import annotations

import importlib.util
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Event files in a folder. Without the package `tensorboard` it writes none."""

    def __init__(self, folder: Path) -> None:
        self.writer: Any = None
        if importlib.util.find_spec("tensorboard") is not None:
            self.writer = _writer(folder)

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write numbers under their names, such as `epoch/accuracy`."""
        if self.writer is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        event = Event(step=step, wall_time=time.time(), summary=Summary(value=values))
        self.writer.add_event(event)

    def close(self) -> None:
        """Write what is left."""
        if self.writer is not None:
            self.writer.close()


def _writer(folder: Path) -> Any:
    # tensorboard 2 imports all of TensorFlow when it is installed, seconds for a few numbers,
    # unless a module of this name is there; its own small replacement serves.
    name = "tensorboard.compat.notf"
    if "tensorflow" not in sys.modules:
        sys.modules.setdefault(name, types.ModuleType(name))
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder))
