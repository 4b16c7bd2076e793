"""What the ranks of a job were doing when their nodes were asked: parsed, compared, in words. Pure.

The lines are those of injob/rank/sample_ranks.py.
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
PLACES = 3  # to name


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
        return next((one for one in self.stack if not LIBRARY.search(one.file)), self.stack[0])

    @property
    def called(self) -> Stack:
        """The frames of libraries that the user's code is in."""
        return self.stack[: self.stack.index(self.own)]

    @property
    def loads(self) -> bool:
        return any(LOADER.search(frame.file) for frame in self.called)

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
    def position(self) -> str:
        """Where it is: `train.py line 8: hvd.allreduce(x), in synchronize (mpi_ops.py line 12)`."""
        own, inner = self.own, self.stack[0]
        text = self.text(own)
        where = f"{_base(own.file)} line {own.line}" + (f": {text}" if text else f" ({own.name})")
        called = f", in {inner.name} ({_base(inner.file)} line {inner.line})"
        return where + (called if inner != own else "")

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
    return sorted((_sample(json.loads(one)) for one in whole), key=lambda one: one.rank)


def _sample(value: dict[str, Any]) -> RankSample:
    stacks = tuple(tuple(StackFrame(**frame) for frame in stack) for stack in value.pop("stacks"))
    return RankSample(**value, stacks=stacks)


def stand_still(before: Sequence[RankSample], after: Sequence[RankSample]) -> bool:
    """Whether no rank has moved between two samples, as far as each can tell."""
    then = {one.rank: one for one in before}
    if not after or {one.rank for one in after} != {*then}:
        return False
    known = any(one.stacks or one.state in "Tt" for one in after)
    return known and all(_stands_still(then[one.rank], one) for one in after)


def _stands_still(before: RankSample, after: RankSample) -> bool:
    stacks = [*before.stacks, *after.stacks]
    if before.steps != after.steps or not all(_alike(stacks[0], other) for other in stacks[1:]):
        return False
    runs_in_one_call = any(ONE_CALL.search(frame.file) for frame in after.stack)
    return not runs_in_one_call or after.sleeps - before.sleeps <= WAKES_OF_SAMPLING


def _alike(one: Stack, other: Stack) -> bool:
    """Whether two stacks are the same; a tight loop goes to and fro between two lines."""
    same = one[1:] == other[1:] and (one[0].file, one[0].name) == (other[0].file, other[0].name)
    return same and abs(one[0].line - other[0].line) <= 1


def blamed(samples: Sequence[RankSample]) -> list[tuple[RankSample, str]]:
    """Return the ranks that are not waiting as the others are, and what they do instead."""
    stopped = _differing(samples, lambda one: one.state in "Tt")
    if stopped:
        return [(one, "is stopped (state T), by a signal or a debugger") for one in stopped]
    on_disk = _differing(samples, lambda one: one.state == "D")
    if on_disk:
        return [(one, "waits for a disk or a file server (state D)") for one in on_disk]
    if any(one.stacks for one in samples):
        return [(one, f"is in {one.position} ({one.cpu})") for one in _elsewhere(samples)]
    busy = _differing(samples, lambda one: one.busy >= BUSY)
    asleep = _differing(samples, lambda one: one.wakes < WAKES)
    computes, sleeps = "computes, and the others wait", "sleeps, and the others look for it"
    return [(one, computes) for one in busy] or [(one, sleeps) for one in asleep]


def _differing(
    samples: Sequence[RankSample], differs: Callable[[RankSample], bool]
) -> list[RankSample]:
    """Return those that differ; none where all do."""
    differing = [one for one in samples if differs(one)]
    return differing if len(differing) < len(samples) else []


def _elsewhere(samples: Sequence[RankSample]) -> list[RankSample]:
    """Return the ranks that are not in the collective operation in which others wait.

    Where all are in one, or none is: those that are not where the majority is.
    """
    known = [one for one in samples if one.stacks]
    away = _differing(known, lambda one: not one.waits)
    if away:
        return away
    ((place, count),) = Counter(one.position for one in known).most_common(1)
    return [one for one in known if one.position != place] if 2 * count > len(known) else []


def in_words(samples: Sequence[RankSample]) -> str:
    """Return who is where: first the ranks that do not wait as the others do."""
    blames = blamed(samples)
    ranks = [one for one, _ in blames]
    clauses = [f"{one.name} {why}" for one, why in blames[:PLACES]]
    if len(blames) > PLACES:
        clauses.append(f"so do not wait {len(blames) - PLACES} more ranks")
    others = [one for one in samples if one not in ranks]
    clauses += _places([one for one in others if one.stacks], "the others" if blames else "")
    clauses += [
        f"{one.name} gave no Python stack (state {one.state}, {one.cpu})"
        for one in [one for one in others if not one.stacks][:PLACES]
        if any(other.stacks for other in samples)
    ]
    return "; ".join(clauses)


def _places(samples: Sequence[RankSample], who: str) -> list[str]:
    """Return where these are, the most frequent place first, each with the ranks there."""
    groups: dict[str, list[RankSample]] = {}
    for one in samples:
        groups.setdefault(one.position, []).append(one)
    ordered = sorted(groups.items(), key=lambda each: -len(each[1]))
    if len(ordered) == 1 and len(samples) > 1:
        return [f"{who or 'all ranks'} {_do(samples[0], many=True)} {ordered[0][0]}"]
    return [
        f"{_named(ranks)} {_do(ranks[0], many=len(ranks) > 1)} {place}"
        for place, ranks in ordered[:PLACES]
    ]


def _do(one: RankSample, many: bool) -> str:
    if one.loads:
        return "wait for the data loader in" if many else "waits for the data loader in"
    if one.waits:
        return "wait in" if many else "waits in"
    return "are in" if many else "is in"


def _named(ranks: Sequence[RankSample]) -> str:
    if len(ranks) == 1:
        return ranks[0].name
    return "ranks " + first_few([f"{one.rank}@{one.host}" for one in ranks], PLACES)


def report(one: RankSample) -> str:
    """Return a rank's stack as a text of lines, the innermost frame last, as tracebacks are."""
    lines = [f"{one.name}: state {one.state}, {one.cpu}, {one.steps} steps of its optimizers"]
    for frame in reversed(one.stack):
        text = one.text(frame)
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
        lines += [f"    {text}"] * bool(text)
    return "\n".join([*lines, *["  it gave no Python stack"] * (not one.stack)]) + "\n"
