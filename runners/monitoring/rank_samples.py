"""What the ranks of a job were doing when their nodes were asked: parsed, compared, a table. Pure.

The lines are those of injob/sample_ranks.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

from ..core.text import first_few

PIECE = re.compile(r"^sample (\S+) (.*)$", re.MULTILINE)
BUSY, WAKES = 0.5, 50  # of a CPU; per second
# Python's own and installed packages, the modules of the shim, and code without a file
LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.?\d*/|/code/injob/|^<")
LOADER = re.compile(r"/torch/utils/data/")
# Where ranks wait for each other, or for a GPU that does
COLLECTIVE = re.compile(r"/(?:horovod|torch/(?:distributed|autograd|cuda)|tensorflow)/")
COLLECTIVE_LINE = re.compile(
    r"all_?(?:reduce|gather)|barrier|broadcast|bcast|synchronize|reduce_scatter|alltoall"
    r"|\.backward\(|\.item\(|\.(?:recv|wait|join)\(",
    re.IGNORECASE,
)
# TensorFlow runs each step in one call, at one line: only there it matters whether a thread wakes
ONE_CALL = re.compile(r"/tensorflow/python/eager/")
WAKES_OF_SAMPLING = 4  # from sleep, by a sample's three questions
NAMED = 3  # ranks of a row


class StackFrame(NamedTuple):
    """A frame of a Python stack."""

    file: str
    line: int
    name: str


Stack = tuple[StackFrame, ...]  # the innermost frame first


@dataclass(frozen=True)
class RankSample:
    """What one rank's main thread did for a second: `busy` of a CPU, `wakes` from sleep.

    `sleeps` is how often it went to sleep since its start.

    `state` is a letter of proc(5): R runs, S sleeps, D waits for a disk, T is stopped. `steps` are
    those of PyTorch's optimizers so far. `stacks` are empty where the rank did not answer; `source`
    is the text of the last one's lines, by `FILE:LINE`, where it can be read. On the port `ras` of
    its node NCCL's RAS listens for it, 0 if not.
    """

    rank: int
    host: str
    state: str
    busy: float
    wakes: int
    steps: int = 0
    stacks: tuple[Stack, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)
    sleeps: int = 0
    ras: int = 0

    @property
    def name(self) -> str:
        return f"rank {self.rank}@{self.host}"

    @property
    def stack(self) -> Stack:
        return self.stacks[-1] if self.stacks else ()

    @property
    def own(self) -> StackFrame:
        """The innermost frame of the user's code; the innermost of all where there is none."""
        return next(
            (frame for frame in self.stack if not LIBRARY.search(frame.file)), self.stack[0]
        )

    @property
    def called(self) -> Stack:
        """The frames of libraries that the user's code is in."""
        return self.stack[: self.stack.index(self.own)]

    @property
    def loads(self) -> bool:
        return bool(self.stack) and any(LOADER.search(frame.file) for frame in self.called)

    @property
    def waits(self) -> bool:
        """Whether it is in a collective operation, as far as files and lines tell."""
        if not self.stack or self.loads:
            return False
        called = any(COLLECTIVE.search(frame.file) for frame in self.called)
        return called or bool(COLLECTIVE_LINE.search(self.text(self.own)))

    def text(self, frame: StackFrame) -> str:
        return self.source.get(f"{frame.file}:{frame.line}", "")

    @property
    def place(self) -> tuple[str, str, str]:
        """File and line of the user's code, and its text with the library's function that it is in:
        `train.py`, `8`, `hvd.allreduce(x), in synchronize (mpi_ops.py line 12)`.
        """
        if not self.stack:
            return "", "", "gave no Python stack"
        frame, inner = self.own, self.stack[0]
        called = f", in {inner.name} ({_base(inner.file)} line {inner.line})"
        call = (self.text(frame) or frame.name) + (called if inner != frame else "")
        return _base(frame.file), str(frame.line), call

    @property
    def doing(self) -> str:
        """What its main thread does, in a word or two."""
        if self.state in "Tt":
            return "stopped"
        if self.state == "D":
            return "waits for a disk"
        if self.loads:
            return "loads data"
        if self.waits:
            return "waits"
        return "runs" if self.busy >= BUSY else "sleeps"

    @property
    def cpu(self) -> str:
        return f"{round(100 * self.busy)} % of a CPU"


def _base(file: str) -> str:
    return file.rpartition("/")[2]


def parse(text: str) -> list[RankSample]:
    """Parse the lines of `sample_ranks.py`; skip others, and a truncated sample."""
    pieces: defaultdict[str, str] = defaultdict(str)
    for name, piece in PIECE.findall(text):
        pieces[name] += piece
    whole = (text for text in pieces.values() if text.endswith("}}"))
    return sorted((_sample(json.loads(text)) for text in whole), key=lambda sample: sample.rank)


def _sample(value: dict[str, Any]) -> RankSample:
    stacks = tuple(tuple(StackFrame(**frame) for frame in stack) for stack in value.pop("stacks"))
    return RankSample(**value, stacks=stacks)


def stand_still(before: Sequence[RankSample], after: Sequence[RankSample]) -> bool:
    """Whether no rank has moved between two samples, as far as each can tell."""
    then = {sample.rank: sample for sample in before}
    if not after or {sample.rank for sample in after} != {*then}:
        return False
    known = any(sample.stacks or sample.state in "Tt" for sample in after)
    return known and all(_stands_still(then[sample.rank], sample) for sample in after)


def _stands_still(before: RankSample, after: RankSample) -> bool:
    stacks = [*before.stacks, *after.stacks]
    if before.steps != after.steps or not all(_alike(stacks[0], stack) for stack in stacks[1:]):
        return False
    runs_in_one_call = any(ONE_CALL.search(frame.file) for frame in after.stack)
    return not runs_in_one_call or after.sleeps - before.sleeps <= WAKES_OF_SAMPLING


def _alike(first: Stack, second: Stack) -> bool:
    """Whether two stacks are the same; a tight loop goes to and fro between two lines."""
    same = first[1:] == second[1:] and (first[0].file, first[0].name) == (
        second[0].file,
        second[0].name,
    )
    return same and abs(first[0].line - second[0].line) <= 1


def late(samples: Sequence[RankSample]) -> list[RankSample]:
    """Return the ranks that are not waiting as the others are."""
    for differs in (lambda sample: sample.state in "Tt", lambda sample: sample.state == "D"):
        if ranks := _differing(samples, differs):
            return ranks
    if any(sample.stacks for sample in samples):
        return _elsewhere(samples)
    # Those of Horovod and NCCL that wait wake up often; which way the odd one differs is open.
    busy = _differing(samples, lambda sample: sample.busy >= BUSY)
    return busy or _differing(samples, lambda sample: sample.wakes < WAKES)


def _differing(
    samples: Sequence[RankSample], differs: Callable[[RankSample], bool]
) -> list[RankSample]:
    """Return those that differ; none where all do."""
    differing = [sample for sample in samples if differs(sample)]
    return differing if len(differing) < len(samples) else []


def _elsewhere(samples: Sequence[RankSample]) -> list[RankSample]:
    """Return the ranks that are not in the collective operation in which others wait.

    Where all are in one, or none is: those that are not where the majority is.
    """
    known = [sample for sample in samples if sample.stacks]
    away = _differing(known, lambda sample: not sample.waits)
    if away:
        return away
    ((place, count),) = Counter(sample.place for sample in known).most_common(1)
    return [sample for sample in known if sample.place != place] if 2 * count > len(known) else []


class TableRow(NamedTuple):
    """Ranks that do the same at one place; `late` are those that do not wait as the others do."""

    late: bool
    ranks: str
    hosts: str
    state: str
    file: str
    line: str
    call: str


def table(samples: Sequence[RankSample]) -> list[TableRow]:
    """Return a row for each place with ranks: those that are late first, then the most frequent."""
    missed = {sample.rank for sample in late(samples)}
    groups: dict[tuple[bool, str, tuple[str, str, str]], list[RankSample]] = {}
    for sample in samples:
        groups.setdefault((sample.rank in missed, sample.doing, sample.place), []).append(sample)
    ordered = sorted(groups.items(), key=lambda item: (not item[0][0], -len(item[1])))
    return [
        TableRow(
            is_late,
            first_few([str(sample.rank) for sample in ranks], NAMED),
            first_few(list(dict.fromkeys(sample.host for sample in ranks)), NAMED),
            doing,
            *place,
        )
        for (is_late, doing, place), ranks in ordered
    ]


def verdict(samples: Sequence[RankSample]) -> str:
    """Return which ranks did not come to where the others wait, in words."""
    missed = late(samples)
    if not missed:
        return "no rank differs from the others" if samples else "its nodes did not answer"
    names = first_few([f"{sample.rank}@{sample.host}" for sample in missed], NAMED)
    who = f"ranks {names}" if missed[1:] else f"rank {names}"
    ranks = {sample.rank for sample in missed}
    others = [sample for sample in samples if sample.rank not in ranks]
    if any(sample.waits or not sample.stacks for sample in others):
        return f"{who} did not come to where the others wait"
    return f"{who} {'are' if missed[1:] else 'is'} not where the others are"


def report(sample: RankSample) -> str:
    """Return a rank's stack as a text of lines, the innermost frame last, as tracebacks are."""
    steps = f"{sample.steps} steps of its optimizers"
    lines = [f"{sample.name}: state {sample.state}, {sample.cpu}, {steps}"]
    for frame in reversed(sample.stack):
        text = sample.text(frame)
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
        lines += [f"    {text}"] if text else []
    lines += [] if sample.stack else ["  it gave no Python stack"]
    return "\n".join(lines) + "\n"
