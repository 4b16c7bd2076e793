"""What signatures are searched in, and how: the first error's messages, and lines of the log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, takewhile

from ..contract import failure_kinds as kinds
from ..contract.failure_kinds import FailureKind
from ..contract.log_text import plain
from .facts import Facts, Line
from .findings import BETWEEN_ERRORS
from .first_failure import (
    ERROR_LINE,
    FILE,
    LABEL,
    OF_PYTHON,
    TRACEBACK,
    as_logged,
    label_of,
    start_of_chain,
    without_ignored,
)

LONGEST_LINE = 1000  # characters of a line of the log that are searched
LONGEST_MESSAGE = 4000  # and of a line of the error: expressions may take the square of its length
# Of a regular expression: its parts, and those that stand for one character and no other.
PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.", re.DOTALL)
PLAIN = re.compile(r"\\[^\w\s]|[^\\\s.^$()|?*+{}\[]")
# Lines that a healthy program writes too: information, warnings, TensorFlow's search for GPUs, and
# what it does without, tries again or handles; not so what an operation of Horovod reports, or XLA
# of a GPU that it cannot use
HARMLESS = re.compile(
    r"^\s*(?:\[?[WI]\d{3,4}\b|\[[WI] |(?:- )?(?:INFO|DEBUG)\b|\[(?:INFO|DEBUG|WARN\w*)\]"
    r"|\d{4}-\d\d-\d\d [\d:.,]+: [IW] (?!.*(?:OP_REQUIRES failed at mpi_ops|to create StreamExec)))"
    r"|NCCL INFO(?!.*no socket interface)"
    r"|accepting this combination|(?<!error: )Warning: (?!node argument)|register cu\w+ factory"
    r"|cuda_diagnostics|[Ff]ailed call to cuInit"
    r"|cannot open shared object.*\(ignored\)|[Ff]alling back|will retry|thrown while requesting"
    r"|importing function definition"  # of bash, where an exported one is not whole
    r"|[Rr]etry(?:ing\b|\()(?!.*total=0)|Ignoring this choice|UCX +WARN +unused env"
    r"|send MESSAGE_TASK_EXIT|NCCL WARN Failed to (?:find CUDA lib|open libibverbs)"
)
# What the job's shell lacked before a rank ran, and so could do without
OF_SHELL = re.compile(r"^(?:\S+: line \d+|(?:ba)?sh): |^Lmod |^(?:Module )?ERROR: .*\bmodule")
NUMBER = re.compile(r"\d+")
ERROR, LOG, SAID = "error", "log", "said"
# What names a file, a folder or an address: its words are the user's and tell not who speaks
PATH = re.compile(
    r"\w+://[^\s'\"]+"
    r"|(?<![\w/])(?:~|\.{1,2}|[\w.-]+/[\w.+@%=,-]+)?/[\w.+@%=,-][\w.+@%=,/-]*"
    r"|[\w.+-]+\.(?:bin|cfg|ckpt|csv|gz|h5|hdf5|ini|json|log|npy|npz|out|parquet|pt|pth|pyc?|rec"
    r"|safetensors|sh|sif|tar|tfrecord|toml|txt|ya?ml|zip)\b"
)
WITHIN = "Original Traceback"  # of a data loader's worker, within the message of the error
NEAR = 6  # lines from an exception's message to what says that another follows
# Errors that only pass on that something failed: what did is told by a library, in the log
VAGUE = re.compile(
    r"HorovodInternalError|NCCL|nccl|MPI|CalledProcessError|ChildFailedError|ProcessExitedException"
    r"|returned non-zero|exit(?:ed)? (?:with )?(?:status|code)|InternalError|UnknownError"
    r"|SystemExit|Engine core initialization failed|DistBackendError|EOFError|BrokenPipeError"
    r"|exited unexpectedly|device-side assert|no supported devices found"
    r"|Rendezvous(?:Closed|Connection|Timeout)Error|non-?zero|CheckpointException ranks"
    r"|No CUDA GPUs are available"
)
# What an error says
ENDS = re.compile(
    rf"{re.escape(TRACEBACK)}|^(?:srun|slurmstepd): |^MPI_ABORT was invoked|^application called MPI"
    r"|^(?:mpirun|mpiexec|prterun) (?:detected|noticed|has exited)|^Primary job +terminated"
)
# Bash's words of a program that SIGKILL ended, and those of a program that ran one
KILLED = re.compile(
    r": line \d+: +\d+ Killed\b"
    r"|(?:Error|Exception|Exit)\b.*?\b(?:exit|return|status)[ -]?(?:code|status)?[ :=]*(?:137|-9)\b"
)
# What no launcher, traceback or message of several lines begins with
GOES_ON = re.compile(
    r"(?:(?:epoch|step|iter|loading|loaded|starting|running|warning|using|\d{4}-\d\d-\d\d)\b"
    r"|ERROR:|[\w./-]+ (?:is )?not (?:available|installed|found))(?!.*Error\b)",
    re.IGNORECASE,
)
IMPORT = re.compile(r"(?:ModuleNotFound|Import)Error\b")
WAITED = re.compile("[Cc]ollective operation timeout")
FRAME = re.compile(r'^\s+(?:File "|assert\b|.*\b(?:environ\.get|getenv|remove|unlink|rmdir)\()')


@dataclass(frozen=True)
class Text:
    """What is searched: the messages of the error and its causes, its frames, lines of the log.

    The error itself is `logged` where it is known from the log alone.
    """

    error: str
    frames: str = ""
    lines: tuple[Line, ...] = ()
    logged: bool = False

    def of(self, where: str) -> str:
        if where == SAID:
            parts = [PATH.sub("PATH", self.error), self.frames]
        elif where == LOG:
            parts = [self.error if self.logged else "", self.log]
        else:
            parts = [self.error, *([] if where == ERROR else [self.frames, self.log])]
        return "\n".join(filter(None, parts))

    @property
    def log(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def lines_with(self, text: str) -> tuple[Line, ...]:
        """Return the first and the last line of the log in which something was found; or none."""
        at = self.log.find(text)
        if at < 0 or text in self.error:
            return ()
        starts = list(accumulate((len(line.text) + 1 for line in self.lines), initial=0))
        ends = {bisect_right(starts, place) - 1 for place in (at, at + len(text))}
        return tuple(self.lines[end] for end in sorted(ends))

    def survivable(self, text: str) -> bool:
        """Whether something was found in a failed import's line, after which a program went on."""
        found = self.lines_with(text)
        if not found or not all(IMPORT.match(line.text) for line in found):
            return False
        after = next((line for line in self.lines if line.number > found[-1].number), None)
        return after is not None and bool(GOES_ON.match(after.text))


def _raised(text: str) -> bool:
    return bool(OF_PYTHON.match(text) and ERROR_LINE.match(text))


def text_of(facts: Facts) -> Text:
    """Return what is searched: the log too where the error does not say what happened."""
    record = facts.record
    told = list(record.traceback) if record else []
    logged = [line.text for line in facts.log.last] if facts.error and not told else []
    told = told or _from_error(logged, facts.error)
    messages, frames = parted(map(plain, told))
    if facts.error not in "\n".join(messages):
        messages.insert(0, facts.error)
    clear = bool(facts.error) and not VAGUE.search("\n".join(messages))
    # Python ends with 1 after an error and its traceback; other lines may be of one it handled.
    pythons = bool(record and record.exit_code == 1) and any(TRACEBACK in line for line in told)
    unclear = not clear or bool(record and record.file and record.guessed and not pythons)
    lines = _lines(facts) if unclear else ()
    shown = (line[:LONGEST_MESSAGE] for line in messages)
    return Text("\n".join(shown), "\n".join(frames), lines, facts.kind == FailureKind.EXIT)


def _lines(facts: Facts) -> tuple[Line, ...]:
    """Return the lines of nobody and of the first rank to fail, in the order of the log."""
    rank = facts.first.rank if facts.first else None
    # Of one that left no record, as it was killed with its shim, the last lines are all ranks'.
    mixed = (*facts.log.errors, *(() if facts.record else facts.log.last))
    of_rank = [line for line in mixed if rank is None or line.rank in (None, rank)]
    last = facts.log.last if facts.record else ()
    lines = {(line.file, line.number): line for line in (*facts.log.of_nobody, *of_rank, *last)}
    # Of lines that differ in numbers alone, such as a training's steps, one is enough.
    kinds_of_line: dict[str, Line] = {}
    beside = _beside(facts, lines.values())
    for whole in without_ignored(lines[key] for key in sorted(lines)):
        line = replace(whole, text=LABEL.sub("", whole.text)[:LONGEST_LINE])
        survived = facts.record and line.rank is None and OF_SHELL.search(line.text)
        if survived or HARMLESS.search(line.text) or beside(line.text):
            continue
        kinds_of_line.setdefault(NUMBER.sub("0", line.text), line)
    return tuple(kinds_of_line.values())


def _beside(facts: Facts, lines: Iterable[Line]) -> Callable[[str], bool]:
    """Return what tells whether a line of the log is of what did not end the job.

    No exception ends in SIGKILL; a rank that timed out waited for one that has an error of its own.
    """
    killed = bool(KILLED.search(facts.error)) or any(KILLED.search(line.text) for line in lines)
    first = as_logged(facts.first, facts.log)
    error = first.record.error if first and first.record else ""
    own = bool(error) and not kinds.of_lost_peer(error) and not WAITED.search(error)

    def beside(text: str) -> bool:
        return (killed and _raised(text)) or bool(own and WAITED.search(text))

    return beside


def _from_error(lines: list[str], error: str) -> list[str]:
    """Return the part of a log that is this error: its chain of tracebacks, its messages.

    Below torchrun the lines of several ranks may stand between each other's, with a label.
    """
    at = next((at for at in range(len(lines) - 1, -1, -1) if error in lines[at]), None)
    if at is None:
        return []
    label = label_of(lines[at])
    before = [line for line in lines[: at + 1] if label_of(line) == label]
    start = start_of_chain(before, len(before) - 1)
    end = _end_of_chain(lines, at)
    before += [line for line in lines[at + 1 : end + 1] if label_of(line) == label]
    rest = lines[end + 1 :]
    after = takewhile(
        lambda line: not ENDS.search(LABEL.sub("", line)) and label_of(line) == label, rest
    )
    return [*before[start:], *after]


def _end_of_chain(lines: list[str], at: int) -> int:
    """Return where the last exception stands that came while the one at `at` was handled."""
    texts = [LABEL.sub("", line) for line in lines[at + 1 :]]
    chained = any(text.startswith((*BETWEEN_ERRORS, WITHIN)) for text in texts[:NEAR])
    begin = next((number for number, text in enumerate(texts) if TRACEBACK in text), 0)
    rest = enumerate(texts[begin + 1 :], at + begin + 2)
    message = next((number for number, text in rest if text and not text[0].isspace()), at)
    return _end_of_chain(lines, message) if chained and message > at else at


def parted(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the messages of a traceback, and its lines that name a file, a test or a variable."""
    messages: list[str] = []
    frames: list[str] = []
    within = False
    for line in (LABEL.sub("", line) for line in lines):
        within = within or TRACEBACK in line or line.startswith(FILE)
        if TRACEBACK in line:
            continue
        if within and (line[:1].isspace() or not line):
            frames += [line] if FRAME.match(line) else []
        else:
            within = False
            messages.append(line)
    return messages, frames


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile it once: `re` itself keeps no more than 512, and there are more here.

    Between two words the line may end: versions of a program wrap a sentence at other places.
    """
    return re.compile(re.sub(r"(?<=[a-z]) (?=[a-z])", r"[ \n]", pattern), re.MULTILINE)


@cache
def words_needed(pattern: str) -> tuple[str, ...]:
    """Return words of which a text that matches has one: to look for them takes less time."""
    depth, parts, words = 0, [], [""]
    for part in () if "(?i" in pattern else PART.findall(pattern):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth == 0 and part == "|":
            parts.append(max(words, key=len))
            words = [""]
        elif depth == 0 and (character := PLAIN.fullmatch(part)):
            words[-1] += character[0][-1]
        else:
            if part[0] in "?*{":  # the character before it may be missing
                words[-1] = words[-1][:-1]
            words.append("")
    return (*parts, max(words, key=len))
