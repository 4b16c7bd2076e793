"""The error itself, where a record has only what stands on top of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ..injob import failure_kinds as kinds
from .facts import Failure, FirstFailure, LogFacts

# TensorFlow's, of an error within @tf.function; torchrun's summary; accelerate's of its program
ON_TOP = re.compile(r"in user code:$|\bChildFailedError\b|\bCalledProcessError\b")
# torch prints each line with its rank once a process group is there
ERROR = re.compile(r"^(?:\[rank\d+\]: )?\s*(?P<error>[\w.]*(?:Error|Exception|Interrupt)\b.*)")


def told(first: FirstFailure | None, log: LogFacts) -> FirstFailure | None:
    """Return the failure with its own error in place of that on top, where it can be found."""
    record = first.record if first else None
    if first is None or record is None or not _on_top(record, log):
        return first
    lines = record.traceback or [line.text for line in log.last]
    error = _error(reversed(lines))
    if not error:  # a launcher's summary may be longer than what was kept
        own = [line.text for line in log.errors if line.rank == record.rank]
        error = _error(own)
    if not error:
        return first
    message = f"exit code {record.exit_code}: {error}"
    kind = kinds.PEER_LOST if kinds.of_lost_peer(error) else record.kind
    record = replace(record, message=message, kind=kind, fields={**record.fields, "error": error})
    return replace(first, how=message, record=record)


def _on_top(record: Failure, log: LogFacts) -> bool:
    """Whether the record has what stands above the error; torchrun's may be too long for it."""
    if record.error:
        return bool(ON_TOP.search(record.error))
    return record.silent and any(ON_TOP.search(line.text) for line in log.last)


def _error(lines: Iterable[str]) -> str:
    """Return the first error that is not on top, and if there is one no lost peer's."""
    found = [each for each in map(ERROR.match, lines) if each and not ON_TOP.search(each[0])]
    errors = [each["error"] for each in found]
    return next((each for each in errors if not kinds.of_lost_peer(each)), [*errors, ""][0])
