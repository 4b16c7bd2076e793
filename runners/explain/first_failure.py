"""The rank that failed first: by the times of the records, and by the order of the log. Pure.

Its error is looked for where its record has only what stands on top of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from ..contract import failure_kinds as kinds
from ..contract.failure_kinds import FailureKind
from ..contract.log_text import OF_A_TYPE, OF_RANK, TIME
from .facts import Failure, FirstFailure, Line, LogFacts, Lost
from .findings import BETWEEN_ERRORS, ON_TOP
from .lost_ranks import exit_code

# How those end whom Slurm ends because another failed: SIGTERM, and SIGKILL for who stays.
FOLLOWS = ("Terminated", "Exited with exit code 143", "died from signal 15")
# Trainers that end all ranks together let one of them tell why: `error: on rank 3@n2: ...`.
TOGETHER_SECONDS = 5.0
NAMED = re.compile(r"error: on rank (?P<rank>\d+)@(?P<host>[\w.-]+)[:,]")
# What stands in torchrun's summary of its workers
ROOT_CAUSE = "Root Cause (first observed failure)"
WORKER = re.compile(r"^\s*rank +: (?P<rank>\d+) \(local_rank: \d+\)")
# As Python ends a traceback, and not `Error executing job`
OF_PYTHON = re.compile(rf"^(?:{OF_RANK})?\s*[A-Za-z_][\w.]*(?::|$)")
TRACEBACK, IGNORED = "Traceback (most recent call last)", "Exception ignored in"
FILE = '  File "'  # of a frame
ERROR_LINE = re.compile(rf"^(?:{OF_RANK})?\s*(?P<error>{OF_A_TYPE}.*)")
LABEL, TIME_OF_LINE = re.compile("^" + OF_RANK), re.compile(TIME)
# What Python prints before a traceback that ends no process, or one that is ending already
BESIDE = ("Exception in thread", "Error in atexit", "Error in sys.excepthook")
SHORT_TRACEBACK = range(3, 30)  # lines from Python's words of an ignored exception to itself
# Bash's words of a program that a signal ended, and Apptainer's of a container that did not start
NO_EXCEPTION = re.compile(
    r": line \d+: +\d+ (?:Segmentation fault|Bus error|Aborted|Illegal instruction|Killed"
    r"|Floating point exception)|^FATAL: {2,}"
)


def of(failed: Sequence[Failure], log: LogFacts) -> FirstFailure | None:
    """Return the rank that failed first, None when nobody left a trace.

    `failed` has those to blame first. A rank that was killed with its shim left no record, and is
    named by who started it.
    """
    by_record, gone = _who_tells(failed), _lost(failed, log)
    if gone and (by_record is None or _came_first(gone, by_record, log)):
        return FirstFailure(gone.rank, gone.host, gone.how, (str(gone.line),))
    return _of_record(by_record, failed, log) if by_record else None


def _who_tells(failed: Sequence[Failure]) -> Failure | None:
    """Return the first record; of ranks that ended as one, the one that says why."""
    first = failed[0] if failed else None
    if first is None or not first.silent:
        return first
    same = (failure for failure in failed if failure.exit_code == first.exit_code)
    near = (failure for failure in same if failure.time - first.time < TOGETHER_SECONDS)
    return next((failure for failure in near if not failure.silent), first)


def _lost(failed: Sequence[Failure], log: LogFacts) -> Lost | None:
    """Return the first rank that was lost without a record, and not because others were."""
    recorded = {failure.rank for failure in failed}
    gone = (lost for lost in log.lost if lost.rank not in recorded and lost.how not in FOLLOWS)
    return next(gone, None)


def _came_first(gone: Lost, record: Failure, log: LogFacts) -> bool:
    logged = log.failed.get(record.rank, log.lines + 1) if record.rank is not None else 0
    return record.follower or gone.line.number < logged


def _of_record(record: Failure, failed: Sequence[Failure], log: LogFacts) -> FirstFailure:
    rivals = [failure for failure in failed if failure.follower == record.follower]
    named = NAMED.search(record.error)
    rank, host = (int(named["rank"]), named["host"]) if named else (record.rank, record.host)
    alike = 1 if named else _alike(record, rivals)
    doubt = "" if alike > 1 or failed[0].silent else _doubt(record, rivals, log)
    return FirstFailure(
        rank, host, record.message, (str(record),), record, doubt, alike, record.size
    )


def _alike(record: Failure, rivals: Sequence[Failure]) -> int:
    """Return how many ranks failed in the same way; 1 where any failed in another."""
    same = all(
        rival.alike(record) or (rival.silent and rival.exit_code == record.exit_code)
        for rival in rivals
    )
    return len(rivals) if same else 1


def _doubt(record: Failure, rivals: Sequence[Failure], log: LogFacts) -> str:
    """Return that clocks may differ where the log has another rank's failure first, else ""."""
    ranks = [rival.rank for rival in rivals if rival.rank is not None]
    logged = {rank: log.failed[rank] for rank in ranks if rank in log.failed}
    if record.rank not in logged:
        return ""
    earliest = min(logged, key=lambda rank: logged[rank])
    if any(rival.rank == earliest and rival.alike(record) for rival in rivals):
        return ""  # it is this one, or says the very same
    by_clock = f"rank {record.rank} was first by the nodes' clocks"
    return f"{by_clock}, rank {earliest} by the order of the log"


def with_own_error(first: FirstFailure | None, log: LogFacts) -> FirstFailure | None:
    """Return the failure with its own error in place of that on top, where it can be found."""
    record = first.record if first else None
    if first is None or record is None:
        return first
    if told := _told_by_another(record, log):
        named = NAMED.search(told.text)
        rank, host = (int(named["rank"]), named["host"]) if named else (first.rank, first.host)
        first = replace(first, rank=rank, host=host, evidence=(*first.evidence, str(told)))
        return _with_error(first, record, told.text)
    if not _on_top(record, log):
        return first
    lines = record.traceback or [line.text for line in without_ignored(log.last)]
    worker = _worker(lines)
    first = replace(first, worker=worker)
    theirs = [line for line in lines if line.startswith(f"[rank{worker}]: ")]
    error = _error(reversed(theirs))
    # torchrun itself says that this worker was the first; what others ran may have survived its own
    agents = any("ChildFailedError" in line for line in lines)
    guessed = not error and (record.guessed or not (record.traceback or agents))
    error = error or _error(reversed(lines))
    if not error:  # a launcher's summary may be longer than what was kept
        error = _error(line.text for line in log.errors if line.rank == record.rank)
        guessed = True
    if not error:
        return first
    return _with_error(first, replace(record, guessed=guessed), error)


def as_logged(
    first: FirstFailure | None, log: LogFacts, several: bool = False
) -> FirstFailure | None:
    """Return the failure with the exception of the log, where no rank left a record.

    It is the first, or if its rank survived that, the one that the rank's log ends with; of
    `several` ranks without labels nobody knows who went on. Python ends with 1 after one; who was
    ended by a signal had another reason.
    """
    code = (exit_code(first.how) if first else None) or 1
    if code > 128 or (first and first.record):
        return first
    lines = [line for line in log.errors if first is None or line.rank in (None, first.rank)]
    if any(NO_EXCEPTION.search(line.text) for line in (*lines, *log.of_nobody)):
        return first
    last = [*without_ignored(log.last)]
    ignored = {*log.last}.difference(last).union(_ignored(lines))
    lines = [line for line in lines if OF_PYTHON.match(line.text) and line not in ignored]
    error = _error(line.text for line in lines)
    if not error or kinds.of_lost_peer(error):
        return first
    line = next(line for line in lines if error in line.text)
    several = several or len(log.lost) > 1 or any(kinds.of_lost_peer(line.text) for line in lines)
    mixed = several and line.rank is None and not label_of(line.text)
    ending = None if mixed else _ending(line, last)
    if ending:
        line, error = ending, _error([ending.text])
    message = f"exit code {code}: {error}"
    told = first or FirstFailure(line.rank, line.host, message, ())
    record = Failure(
        told.rank,
        told.host,
        code,
        message,
        0.0,
        "",
        FailureKind.EXIT,
        error=error,
        guessed=not ending,
    )
    return replace(told, record=record, evidence=(*told.evidence, str(line)))


def _ignored(errors: Sequence[Line]) -> Iterator[Line]:
    """Yield those that Python ignored, as far as it shows where only errors are known."""
    for before, line in zip(errors, errors[1:]):
        begun = LABEL.sub("", before.text).startswith(IGNORED)
        near = line.number - before.number in SHORT_TRACEBACK
        if begun and near and label_of(line.text) == label_of(before.text):
            yield line


def _ending(survived: Line, lines: Iterable[Line]) -> Line | None:
    """Return the error of the last traceback of a line's rank, which went on after that line."""
    whose = survived.rank, label_of(survived.text)
    of_rank = [line for line in lines if (line.rank, label_of(line.text)) == whose]
    texts = [LABEL.sub("", line.text) for line in of_rank]
    start = _last_chain(texts)
    if start is None or texts[max(0, start - 1)].startswith(BESIDE):
        return None
    between = zip(of_rank[:start], texts[:start])
    if not any(line.number > survived.number and text[:1].strip() for line, text in between):
        return None
    error = _error(texts[start:])
    if not error or kinds.of_lost_peer(error):
        return None
    return next(line for line in of_rank[start:] if error in line.text)


def _last_chain(texts: Sequence[str]) -> int | None:
    """Return where the last tracebacks begin of which one does not only tell of another's."""
    for at in range(len(texts) - 1, -1, -1):
        if TRACEBACK in texts[at]:
            start = start_of_chain(texts, at)
            if _error(texts[start:]) or not any(map(ON_TOP.search, texts[start:])):
                return start
    return None


def start_of_chain(lines: Sequence[str], end: int) -> int:
    """Return where the traceback begins whose message is at `end`, or the first one of a chain."""
    start = next((at for at in range(end, -1, -1) if TRACEBACK in lines[at]), None)
    if start is None:
        return _start_of_frames(lines, end)
    near = range(start - 1, max(-1, start - 4), -1)
    chained = next((at for at in near if lines[at].startswith(BETWEEN_ERRORS)), None)
    return start if chained is None else start_of_chain(lines, chained)


def _start_of_frames(lines: Sequence[str], end: int) -> int:
    """Return where the frames above a message begin, of a traceback whose first line is cut off."""
    above = takewhile(lambda at: LABEL.sub("", lines[at])[:1].isspace(), range(end - 1, -1, -1))
    return min((at for at in above if FILE in lines[at]), default=end)


def label_of(line: str) -> str:
    """Return whose line it is; its time, where a line has one, is another on each."""
    match = LABEL.match(line)
    return TIME_OF_LINE.sub("", match[0]).strip() if match else ""


def without_ignored(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines without the exceptions that Python ignores, as at the end of a process.

    Each has a line of its own, then its traceback, and last the exception, all of one rank.
    """
    due: dict[tuple[int | None, str], tuple[str, ...]] = {}
    for line in lines:
        whose, text = (line.rank, label_of(line.text)), LABEL.sub("", line.text)
        begins = due.pop(whose, ())
        if text.startswith(IGNORED):
            due[whose] = (TRACEBACK,)
        elif begins and text.startswith(begins):
            due[whose] = (" ",)
        elif begins != (" ",) or not OF_PYTHON.match(text):
            yield line


def _with_error(first: FirstFailure, record: Failure, error: str) -> FirstFailure:
    message = f"exit code {record.exit_code}: {error}"
    kind = FailureKind.PEER_LOST if kinds.of_lost_peer(error) else record.kind
    record = replace(record, message=message, kind=kind, error=error)
    return replace(first, how=message, record=record)


def _told_by_another(record: Failure, log: LogFacts) -> Line | None:
    """Return the line `error: ...` of another rank, which speaks for a silent one.

    srun may end that rank before it can leave a record.
    """
    if not record.silent or any(line.rank == record.rank for line in log.errors):
        return None
    others = (line for line in log.errors if line.rank not in (None, record.rank))
    return next((line for line in others if line.text.startswith("error: ")), None)


def _worker(lines: Sequence[str]) -> int | None:
    """Return the number of the rank that failed first, by torchrun's summary."""
    at = next((at for at, line in enumerate(lines) if ROOT_CAUSE in line), len(lines))
    match = next(filter(None, map(WORKER.match, lines[at:])), None)
    return int(match["rank"]) if match else None


def _on_top(record: Failure, log: LogFacts) -> bool:
    """Whether the record has what stands above the error; torchrun's may be too long for it."""
    if record.error:
        return bool(ON_TOP.search(record.error))
    return record.silent and any(ON_TOP.search(line.text) for line in log.last)


def _error(lines: Iterable[str]) -> str:
    """Return the first error that is not on top, and if there is one no lost peer's."""
    matches = [match for match in map(ERROR_LINE.match, lines) if match]
    errors = [match["error"] for match in matches if not ON_TOP.search(match[0])]
    return next((error for error in errors if not kinds.of_lost_peer(error)), [*errors, ""][0])
