"""Errors in a rank's own words, by a table: how they read, what happened, and what mends it.

NOTE: rows that need a GPU to be caused have been seen as text only (PyTorch 2.10, NCCL 2.27).
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from ..core.remedy import Remedy, advice, change, command
from .explanation import Finding, Signature
from .facts import Facts, Line, LogPattern
from .finding_helpers import ITSELF, certain, edit, host, likely, own_code, smaller_batch, who


class KnownError(NamedTuple):
    """An error: `says` is a regex for the words of the first rank to fail.

    `cause` may have {who}, {image}, {error} and the named groups of `says`. With `words` the rank's
    lines in the log are searched too, for what a program says before a signal ends it. `amid` are
    words (a regex) one of which stands around the error, `sure` is whether it can be nothing else.
    """

    name: str
    says: str
    cause: str
    fix: Callable[[Facts], Remedy] = edit
    because: str = ITSELF
    sure: bool = True
    words: str = ""
    amid: str = ""


def _listeners(facts: Facts) -> Remedy:
    return command("srun", "-w", host(facts), "ss", "-ltnp")


COMPARED = "Horovod compares what the ranks send, and says so"
KNOWN = (
    KnownError(
        "no-gpu",
        r"Torch not compiled with CUDA enabled",
        "the image {image} is one for CPUs, and the trainer computes on a GPU",
        lambda facts: change(image="horovod_gpu.sif", gpus_per_node="1"),
    ),
    KnownError(
        "torchvision-operators",
        r"Couldn't load (?:custom C\+\+ ops|the image extension)",
        "the trainer needs a compiled operator of torchvision, and {image} has torchvision without "
        "them: its own advice about versions misleads",
        lambda facts: advice(
            "docs/concepts/images.md, What scripts import; the GPU image has them"
        ),
    ),
    KnownError(
        "no-gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device"
        r"|CUDA_ERROR_NO_DEVICE",
        "{who} sees no GPU: the job asked for none, or the driver is not in the image",
        lambda facts: change(nv=True, gpus_per_node="1"),
    ),
    KnownError(
        "no-such-gpu",
        r"invalid device ordinal",
        "{who} takes a GPU by a number that is not there: more ranks than GPUs",
        lambda facts: change(ntasks_per_node=1),
        "CUDA says so; by local rank each rank of a node takes another one",
        sure=False,
    ),
    KnownError(
        "gpu-memory",
        r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemoryError|OOM when alloc",
        "the memory of the GPU of {who} does not suffice",
        lambda facts: smaller_batch(facts) or change(arguments={"--batch-size": 16}),
    ),
    # Which of its many reasons it was
    KnownError(
        "nccl",
        r"NCCL [Ee]rror|nccl(?:System|Internal|UnhandledCuda|Remote|InvalidUsage)Error",
        "NCCL failed on {who}: {error}",
        lambda facts: change(env="NCCL_DEBUG=INFO"),
        "NCCL says that it failed, and not why; its own log does",
        sure=False,
    ),
    # Lightning 2.0 took it out
    KnownError(
        "no-horovod-strategy",
        r"cannot import name 'HorovodStrategy' from '(?:pytorch_)?lightning",
        "Lightning 2 has no HorovodStrategy any more; there is one in recipes.lightning_horovod, "
        "and `runner recipes copy lightning_mnist` shows its use",
    ),
    KnownError(
        "ranks-differ",
        r"(?P<what>Mismatched \w+ .*)",
        "the ranks gave Horovod unlike tensors under one name: {what}",
        because=COMPARED,
    ),
    KnownError(
        "duplicate-name",
        r"Duplicate tensor name (?P<name>\S+)",
        "{who} used the name {name} for two operations at once",
        because="Horovod says so",
    ),
    KnownError(
        "duplicate-name",
        r"with the same name as another tensor",
        "{who} used one name for two operations at once",
        because="Horovod says so",
    ),
    KnownError(
        "syntax-error",
        r"(?:SyntaxError|IndentationError|TabError): (?P<what>.*)",
        "Python cannot read the trainer: {what}",
    ),
    KnownError(
        "too-many-open-files",
        r"Too many open files",
        "{who} has more files open than the limit (ulimit -n) allows",
        lambda facts: command("srun", "-w", host(facts), "bash", "-c", "ulimit -n; ulimit -Hn"),
    ),
    # torch's words have the number; they are in known_worlds, which is asked first
    KnownError(
        "port-taken",
        r"[Aa]ddress already in use|EADDRINUSE",
        "{who} listens at a port that is taken: by another rank on its node, as when each starts "
        "the same server, or by another job",
        _listeners,
    ),
    KnownError(  # told apart from the kernel's killing a rank
        "memory-refused",
        r"^(?!.*CUDA).*(?:MemoryError|can't allocate memory|Cannot allocate memory|bad_alloc)",
        "{who} asked for more memory than it could have: {error}",
        lambda facts: smaller_batch(facts) or edit(facts),
    ),
)


def _search(known: KnownError, facts: Facts) -> tuple[re.Match[str], tuple[Line, ...]] | None:
    """Return what the row finds in the rank's error, or in its log, with the lines that show it."""
    found = re.search(known.says, facts.error)
    if found:
        return found, own_code(facts)
    seen = facts.match(LogPattern(known.words, known.says)) if known.words else None
    return (seen[1], (seen[0],)) if seen and facts.first and not facts.error else None


def _judgement(known: KnownError) -> Callable[[Facts], Finding | None]:
    def judge(facts: Facts) -> Finding | None:
        seen = _search(known, facts)
        if seen is None or not _amid(known, facts):
            return None
        found, lines = seen
        named = {name: text or "" for name, text in found.groupdict().items()}
        cause = known.cause.format(who=who(facts), image=facts.image, error=facts.error, **named)
        made = certain if known.sure else likely
        return made(facts, cause, known.fix(facts), *lines, because=known.because)

    return judge


def _amid(known: KnownError, facts: Facts) -> bool:
    around = (*(facts.record.traceback if facts.record else ()), *map(str, facts.log.last))
    return not known.amid or any(re.search(known.amid, line, re.I) for line in around)


def signatures(rows: tuple[KnownError, ...]) -> tuple[Signature, ...]:
    """Return the signatures of a table's rows."""
    return tuple(
        Signature(
            row.name, _judgement(row), (LogPattern(row.words, row.says),) if row.words else ()
        )
        for row in rows
    )


SIGNATURES = signatures(KNOWN)
