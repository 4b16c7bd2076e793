"""What rank 0 writes while training: metrics.jsonl, TensorBoard's log, result.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from recipes.errors import NotSaved, UserError

from .files import write_json
from .metrics import Metrics
from .tensorboard import TensorBoard


class Record:
    """The files of a run in `folder`; `say` tells what could not be written.

    Raises `UserError` if nothing can be written there at all. What an earlier run called its
    result is taken away.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        try:
            (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            (folder / "result.json").unlink(missing_ok=True)
            self.metrics = Metrics(folder / "metrics.jsonl")
            self.board = TensorBoard(folder / "tensorboard")
        except OSError as error:
            raise UserError(
                f"cannot write to the output folder {folder}: {error.strerror}\n"
                "Give a folder that you can write to with --output."
            ) from error

    def add(self, event: str, line: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        whole = {"event": event, **line, "time": now()}
        self._try("metrics.jsonl", lambda: self.metrics.add(whole))

    def plot(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write numbers for TensorBoard under their names, such as `epoch/accuracy`."""
        self._try("TensorBoard's log", lambda: self.board.add(step, scalars))

    def result(self, values: Mapping[str, Any]) -> None:
        """Write result.json, whole or not at all; raise `NotSaved`: it is what all was for."""
        path = self.folder / "result.json"
        try:
            write_json(path, values)
        except OSError as error:
            raise NotSaved(
                f"all is trained, and {path} could not be written: {error.strerror}\n"
                f"Make room, then once more, from the newest checkpoint: --resume {self.folder}"
            ) from error

    def close(self) -> None:
        """Write what is left."""
        self._try("TensorBoard's log", self.board.close)

    def _try(self, what: str, write: Callable[[], object]) -> None:
        """Write a part of the record; a full disk is told, and training goes on."""
        try:
            write()
        except OSError as error:
            self.say(f"warning: {what} was not written: {error.strerror}")


def now() -> str:
    """Return the time in UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
