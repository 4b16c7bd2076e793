"""The directives of a script: what its first lines ask of Slurm, PBS or Cobalt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from ..core import gpus
from . import programs
from .command_substitution import GPUS, LINES, NODES
from .programs import OPTIONS, TABLES
from .words import literal

MARKS: dict[str, str] = TABLES["directives"]["marks"]
# Schedulers that runner does not know, by how their directives begin.
FOREIGN: dict[str, str] = TABLES["directives"]["foreign"]
# Slurm's names of the options of others.
PBS, COBALT, OF_CHUNKS = (TABLES["directives"][name] for name in ("pbs", "cobalt", "of_chunks"))
VARIABLES: dict[str, str] = TABLES["directives"]["variables"]  # of Slurm, and what gives them
# A place that the script leaves open: <my account>, { account }.
BLANK = re.compile(r"<([\w .'-]+)>|(?<![${])\{ *([\w(][\w .'/()*+=-]*?) *\}")


@dataclass(frozen=True)
class Directive:
    """One option of the scheduler, by Slurm's long name where there is one; "" for no value."""

    name: str
    value: str
    line: int


@dataclass
class Job:
    """What a script asks of its scheduler ("" for none).

    `late` are directives after the first command, `unread` those not understood, with the reason.
    """

    scheduler: str = ""
    directives: list[Directive] = field(default_factory=list)
    late: tuple[int, ...] = ()
    unread: list[tuple[int, str]] = field(default_factory=list)
    hetjob: int = 0

    def find(self, *names: str) -> Directive | None:
        """Return the last directive of these names; the last one counts."""
        return next((each for each in reversed(self.directives) if each.name in names), None)

    def get(self, *names: str) -> str:
        found = self.find(*names)
        return found.value if found else ""

    def count(self, *names: str) -> int | None:
        text = self.get(*names)
        return int(text) if text.isdecimal() else None

    def line(self, *names: str) -> int:
        found = self.find(*names)
        return found.line if found else 1

    @property
    def nodes(self) -> int | None:
        """The nodes of the job, None where the scheduler decides."""
        single = self.count("ntasks") in (None, 1) and not self.find("gpus")
        default = 1 if single or self.count("gpus") == 1 else self._packed
        asked, most = self.count("nodes"), self.count("ntasks")
        if asked and most and self.scheduler == "slurm":
            return min(asked, most)  # Slurm gives no node without a task
        return asked or (None if self.get("nodes") else self._named or default)

    @property
    def _named(self) -> int | None:
        """The nodes of --nodelist=a,b, where it gives their number."""
        names = self.get("nodelist").split(",")
        counted = len(names) > 1 and not self.find("ntasks") and "[" not in self.get("nodelist")
        return len(names) if counted else None

    @property
    def _packed(self) -> int | None:
        tasks, each = self.count("ntasks"), self.count("ntasks-per-node")
        return -(-tasks // each) if tasks and each else None

    @property
    def tasks_per_node(self) -> int | None:
        """The tasks of each node, None where Slurm decides; 1 where the script says nothing."""
        each, tasks, nodes = self.count("ntasks-per-node"), self.count("ntasks"), self.nodes
        if each:
            return each
        if tasks and nodes:
            return tasks // nodes if tasks % nodes == 0 else None
        if tasks or self.find("ntasks-per-gpu", "ntasks-per-socket"):
            return None
        return 1

    @property
    def tasks(self) -> int | None:
        each, nodes = self.tasks_per_node, self.nodes
        return self.count("ntasks") or (each * nodes if each and nodes else None)

    @property
    def wants_gpus(self) -> bool:
        named = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
        gres = (self.get("gres"), self.get("tres-per-task"))
        counted = any(self.get(name) not in ("", "0") for name in named)
        return counted or any("gpu" in text for text in gres)

    @property
    def gpus_per_node(self) -> int | None:
        """The GPUs of each node, None where that is not said."""
        if each := self.get("gpus-per-node"):
            return gpus.typed(each)[1]
        if in_gres := gpus.in_gres(self.get("gres")):
            return in_gres[1]
        nodes, tasks = self.nodes, self.tasks_per_node
        if total := self.get("gpus"):
            count = gpus.typed(total)[1]
            return count // nodes if nodes and count % nodes == 0 else None
        if each := self.get("gpus-per-task"):
            return gpus.typed(each)[1] * tasks if tasks else None
        return None

    @property
    def exclusive(self) -> bool:
        """Whether no other job is on the nodes: whole ones by the words of some sites."""
        whole = self.find("constraint") and self.get("qos") in ("regular", "debug", "premium")
        whole = whole or self.find("environment")
        whole = whole or any(each in self.get("partition") for each in ("booster", "dc-gpu"))  # JSC
        alcf = self.find("filesystems") or self.get("place").startswith(("excl", "scatter:excl"))
        return bool(self.find("exclusive") or whole or alcf or self.scheduler == "cobalt")

    def given(self) -> Mapping[str, str]:
        """Return the variables of the job that the directives fix."""
        if not self.scheduler:
            return {}  # the command line of sbatch may have asked for any
        values: dict[str, str | int | None] = {v: self.get(n) for v, n in VARIABLES.items()}
        values |= {
            "SLURM_NTASKS": self.count("ntasks") or (self.tasks if self.nodes else None),
            "SLURM_NTASKS_PER_NODE": self.count("ntasks-per-node"),
            "SLURM_CPUS_PER_TASK": self.count("cpus-per-task"),
            "SLURM_NNODES": self.nodes if self.count("nodes") else self._packed,
            "SLURM_GPUS_ON_NODE": self.gpus_per_node,
        }
        values["SLURM_NPROCS"] = values["SLURM_NTASKS"]
        values["SLURM_JOB_NUM_NODES"] = values["SLURM_NNODES"]
        if self.scheduler == "pbs" and self.nodes:
            values = {NODES: self.nodes, LINES: self.nodes * (self.count("ntasks-per-node") or 1)}
        values[GPUS] = self.gpus_per_node
        return {name: str(value) for name, value in values.items() if value}


def read(text: str) -> Job:
    """Return what a script's directives ask for; those of the first kind that is there count."""
    lines = text.split("\n")
    kinds = (mark for line in lines for mark in MARKS if _is(line, mark))
    mark = next(kinds, "")
    job = Job(MARKS.get(mark, ""))
    for number, line in head(text) if mark else ():
        words = line[len(mark) :].strip()
        if not _is(line, mark):
            continue
        if words in ("hetjob", "packjob"):
            job.hetjob = number
        else:
            _add(job, words, number)
    _ranks_by_gpus(job)
    many = [each.line for each in job.directives if each.name == "select" and "+" in each.value]
    job.hetjob = next(iter(many), job.hetjob)
    return job


def _ranks_by_gpus(job: Job) -> None:
    """Add the tasks that --ntasks-per-gpu, or --gpus with --gpus-per-task, asks for."""
    ranks, count = job.find("ntasks-per-gpu"), job.gpus_per_node
    share, total = job.find("gpus-per-task"), job.count("gpus") or 0
    if job.find("ntasks"):
        return
    if ranks and ranks.value.isdecimal() and count and not job.find("ntasks-per-node"):
        tasks = Directive("ntasks-per-node", str(int(ranks.value) * count), ranks.line)
        job.directives[job.directives.index(ranks)] = tasks
    elif share and share.value.isdecimal() and total >= int(share.value) > 0:
        job.directives.append(Directive("ntasks", str(total // int(share.value)), share.line))


def _is(line: str, mark: str) -> bool:
    return line.startswith(mark) and line[len(mark) : len(mark) + 1] in (" ", "\t", "-", "")


def head(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines before the first command, as sbatch does: comments and empty ones."""
    lines = enumerate(text.split("\n"), 1)
    return takewhile(lambda each: each[1][:1] == "#" or not each[1].strip(), lines)


def late(comments: Mapping[int, str], text: str, job: Job) -> tuple[int, ...]:
    first = len(list(head(text)))
    marks = [mark for mark, scheduler in MARKS.items() if scheduler == job.scheduler]
    found = ((n, line, m) for n, line in comments.items() for m in marks if _is(line, m))
    return tuple(n for n, line, m in found if n > first and line[len(m) :].lstrip()[:1] == "-")


def _add(job: Job, text: str, line: int) -> None:
    try:
        whole = BLANK.sub(r'"<\1\2>"', text)
        words = [literal(word, line) for word in shlex.split(whole, comments=True)]
    except ValueError as error:
        job.unread.append((line, f"{text}: {error}"))
        return
    read_ = programs.read(words, OPTIONS["srun" if job.scheduler == "slurm" else job.scheduler])
    if read_.problem or read_.rest:
        job.unread.append((line, read_.problem or f"{read_.rest[0].text}: no option"))
    names = {"pbs": PBS, "cobalt": COBALT}.get(job.scheduler, {})
    for option in read_.options:
        if job.scheduler == "pbs" and option.name == "l":
            job.directives += _resources(option.text, line)
        else:
            name = names.get(option.name, option.name)
            job.directives.append(Directive(name, option.text, line))


def _resources(text: str, line: int) -> Iterator[Directive]:
    """Yield what PBS's -l asks for, under Slurm's names where the meaning is the same."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name in ("select", "nodes") and "+" in value:
            yield Directive("select", value, line)
        elif name in ("select", "nodes"):
            count, _, rest = value.partition(":")
            yield Directive("nodes", count, line)
            for each in rest.split(":") if rest else ():
                key, _, number = each.partition("=")
                name = OF_CHUNKS.get(key, key) if number else "property"
                yield Directive(name, number or key, line)
        else:
            yield Directive("time" if name == "walltime" else name, value, line)
