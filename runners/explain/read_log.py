"""One pass over a job's log, a piece at a time: gigabytes are read in little memory.

Of each kind of line only the first ones of each rank are kept.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

from ..contract import log_text
from ..contract.log_text import plain
from ..core.files import open_regular
from . import lost_ranks
from .facts import Line, LogFacts, LogPattern, Lost

PIECE = 1 << 20  # bytes
KEPT = 2  # lines of each rank for each pattern
KEPT_OF_NOBODY = 64
LAST = 300  # lines of the rank that failed first: a stack of C++ may stand below its message
OF_NOBODY_FIRST, OF_NOBODY_LAST = 200, 200  # lines of Slurm, the container runtime, and the script
LONGEST = 2000  # bytes of a line
LABEL = re.compile(r"(\d+)@(\S+) \| ")
OF_A_RANK = re.compile(rb"\d+@\S+ \| ")
OF_RANKS = re.compile(rb"^\d+@\S+ \| .*\n", re.MULTILINE)
OF_NOBODY = re.compile(rb"^(?!\d+@\S+ \| ).+", re.MULTILINE)
# Where a requeued job starts: what stands before is another start's.
AGAIN = log_text.START.encode()
# From here on srun itself ends the ranks.
ENDING = (LogPattern("Terminating StepId=", r"^srun: "), LogPattern("Job step aborted", r"^srun: "))
FAILED = LogPattern(
    log_text.FAILED.partition("{")[0], "^" + log_text.FAILED.format(rank=r"(\d+)@(\S+)")
)
# `srun: error: ...`, Open MPI's and PALS' words for it
LOST = (
    LogPattern("srun: error: "),
    LogPattern("noticed that process rank"),
    LogPattern(": rank ", r"died|exited"),
)
NUMBER = attrgetter("number")
# What an error looks like: an exception's last line, a C++ abort, a program's own word, Apptainer's
LOOKS = (
    rf"^\s*(?:{log_text.OF_RANK})?"
    rf"(?:{log_text.OF_A_TYPE}|terminate called|FATAL\b|error:|fatal:)"
)
BASH = r"^/\S*: line \d+: .+"
SLURM = r"^(?:srun|slurmstepd): error: (?!\S+: tasks? )"
ERRORS = (
    LogPattern("Error", LOOKS),
    LogPattern("Exception", LOOKS),
    LogPattern("terminate called", LOOKS),
    LogPattern("FATAL", LOOKS),
    LogPattern("error:", rf"{LOOKS}|{SLURM}|: fatal error: "),
    LogPattern(": line ", BASH),
    LogPattern("core dumped"),
)


def read(
    path: Path,
    patterns: Sequence[LogPattern],
    rank: str = "",
    name: str = "logs/job.log",
    beside: Path | None = None,
) -> LogFacts:
    """Return what the log holds of the patterns; nothing when there is no log.

    `rank` is `rank@host` of the one whose last lines are wanted, "" for those of nobody; `name` is
    the log's in evidence. `beside` is the file of --error: the log has its ranks' lines, and not
    those of what started them. Raises OSError when a file is there and cannot be read.
    """
    wanted = tuple(dict.fromkeys((*patterns, FAILED, *ENDING, *LOST, *ERRORS)))
    reader = _Reader(wanted, f"{rank} | ".encode() if rank else b"", name)
    try:
        for piece in _pieces(path):
            reader.take(piece)
    except FileNotFoundError:
        return LogFacts()
    if beside and beside.is_file():
        reader.name, reader.lines = str(beside), 0
        for piece in _pieces(beside):
            reader.take(OF_RANKS.sub(b"\n", piece))
    return reader.facts()


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the file in pieces of whole lines; a line longer than a piece is cut into several."""
    with open_regular(path) as file:
        rest = b""
        while chunk := file.read(PIECE):
            rest += chunk
            end = rest.rfind(b"\n") + 1 or (len(rest) if len(rest) > PIECE else 0)
            if end:
                yield rest[:end]
                rest = rest[end:]
        if rest:
            yield rest


class _Reader:
    """What has been found so far."""

    def __init__(self, patterns: Sequence[LogPattern], label: bytes, name: str) -> None:
        self.patterns = [
            (pattern, pattern.words.encode(), re.compile(pattern.pattern)) for pattern in patterns
        ]
        self.label, self.name = label, name
        self.lines = self.size = 0
        self._begin()

    def _begin(self) -> None:
        self.hits: dict[LogPattern, list[Line]] = {}
        self.counts: dict[tuple[LogPattern, int | None], int] = {}
        self.last: deque[Line] = deque(maxlen=LAST)
        self.first_of_nobody: list[Line] = []
        self.last_of_nobody: deque[Line] = deque(maxlen=OF_NOBODY_LAST)

    def take(self, piece: bytes) -> None:
        again = _begins(piece)
        if again > 0:
            self.lines += piece.count(b"\n", 0, again)
            self.size += again
            piece = piece[again:]
        if again >= 0:
            self._begin()
        for pattern, words, regex in self.patterns:
            self._search(piece, pattern, words, regex)
        self._keep_of_nobody(piece)
        self.last += self._lines(piece, [*islice(_from_the_end(piece, self.label), LAST)][::-1])
        self.lines += piece.count(b"\n")
        self.size += len(piece)

    def _search(
        self, piece: bytes, pattern: LogPattern, words: bytes, regex: re.Pattern[str]
    ) -> None:
        at = piece.find(words)
        while at >= 0:
            start, end = piece.rfind(b"\n", 0, at) + 1, piece.find(b"\n", at)
            end = len(piece) if end < 0 else end
            self._keep(piece, start, end, pattern, regex)
            at = piece.find(words, end)

    def _keep(
        self, piece: bytes, start: int, end: int, pattern: LogPattern, regex: re.Pattern[str]
    ) -> None:
        rank, host, text = _parted(piece, start, end)
        count = self.counts.get((pattern, rank), 0)
        # The lines of no rank are those of Slurm and of the runtime, which may name any rank.
        if count < (KEPT if rank is not None else KEPT_OF_NOBODY) and regex.search(text):
            self.counts[pattern, rank] = count + 1
            number = self.lines + piece.count(b"\n", 0, start) + 1
            self.hits.setdefault(pattern, []).append(Line(number, text, rank, host, self.name))

    def _keep_of_nobody(self, piece: bytes) -> None:
        """Keep the first and the last lines without a label."""
        spans = [match.span() for match in OF_NOBODY.finditer(piece)]
        room = OF_NOBODY_FIRST - len(self.first_of_nobody)
        self.first_of_nobody += self._lines(piece, spans[:room])
        self.last_of_nobody += self._lines(piece, spans[room:][-OF_NOBODY_LAST:])

    def _lines(self, piece: bytes, spans: Sequence[tuple[int, int]]) -> Iterator[Line]:
        """Yield the lines of a piece that start and stop there, in its order."""
        number, end = self.lines + 1, 0
        for start, stop in spans:
            number, end = number + piece.count(b"\n", end, start), start
            rank, host, text = _parted(piece, start, stop)
            yield Line(number, text, rank, host, self.name)

    def facts(self) -> LogFacts:
        hits = {pattern: tuple(lines) for pattern, lines in self.hits.items()}
        errors = sorted({line for pattern in ERRORS for line in hits.get(pattern, ())}, key=NUMBER)
        matches = [(re.search(FAILED.pattern, line.text), line) for line in hits.get(FAILED, ())]
        failed = {int(match.group(1)): line.number for match, line in matches if match}
        ends = [line.number for pattern in ENDING for line in hits.get(pattern, ())]
        ending = min(ends, default=math.inf)
        lost = [line for pattern in LOST for line in hits.get(pattern, ())]
        gone = [line for line in lost if line.number < ending]
        return LogFacts(
            hits,
            tuple(errors),
            tuple(self.last),
            (*self.first_of_nobody, *self.last_of_nobody),
            failed,
            _lost(gone),
            self.lines,
            self.size,
        )


def _begins(piece: bytes) -> int:
    """Return where the last start within a piece begins, -1 where none does."""
    at = piece.rfind(b"\n" + AGAIN) + 1
    return at if at > 0 else (0 if piece.startswith(AGAIN) else -1)


def _from_the_end(piece: bytes, label: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the lines that begin with a label start and stop, the last one first."""
    end = len(piece.rstrip(b"\n"))
    while end > 0:
        start = piece.rfind(b"\n" + label, 0, end) + 1
        if start == 0 and not piece.startswith(label):
            return
        stop = piece.find(b"\n", start)
        yield start, stop if stop >= 0 else len(piece)
        end = start - 1


def _parted(piece: bytes, start: int, stop: int) -> tuple[int | None, str, str]:
    """Return rank, host and text of a line, without colours; a long one is cut between words."""
    raw = piece[start:stop].rstrip(b"\r")
    begin, _, shown = raw.rpartition(b"\r")  # of a progress bar that was drawn again, the last
    label_of_it = OF_A_RANK.match(begin)
    raw = (label_of_it[0] if label_of_it else b"") + shown
    text = plain(raw[:LONGEST].decode("utf-8", "replace"))
    if len(raw) > LONGEST:
        text = (text.rpartition(" ")[0] or text) + " ..."
    label = LABEL.match(text)
    if not label:
        return None, "", text
    return int(label.group(1)), label.group(2), text[label.end() :]


def _lost(lines: Sequence[Line]) -> tuple[Lost, ...]:
    """Return the ranks that somebody says were lost, in the order of the log."""
    lost = ((line, lost_ranks.lost_ranks(line.text)) for line in sorted(set(lines), key=NUMBER))
    return tuple(
        Lost(rank, named[1], named[2], line) for line, named in lost if named for rank in named[0]
    )
