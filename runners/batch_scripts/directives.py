"""The directives of a script: what its first lines ask of Slurm, PBS or Cobalt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from ..core import gpus
from . import programs
from .command_substitution import GPUS, LINES, NODES
from .programs import OPTIONS, TABLES, Lookup, Option
from .words import literal

MARKS: dict[str, str] = TABLES["directives"]["marks"]
# Schedulers that runner does not know, by how their directives begin.
FOREIGN: dict[str, str] = TABLES["directives"]["foreign"]
# Slurm's names of the options of others.
PBS, COBALT, OF_CHUNKS = (TABLES["directives"][name] for name in ("pbs", "cobalt", "of_chunks"))
VARIABLES: dict[str, str] = TABLES["directives"]["variables"]  # of Slurm, and what gives them
# A place that the script leaves open: <my account>, { account }.
BLANK = re.compile(r"<([\w .'-]+)>|(?<![${])\{ *([\w(][\w .'/()*+=-]*?) *\}")


@dataclass
class Directives(Lookup):
    """What a script asks of its scheduler ("" for none), by Slurm's long names where it has one.

    `late` are directives after the first command, `unread` those not understood, with the reason.
    """

    scheduler: str = ""
    options: list[Option] = field(default_factory=list)
    late: tuple[int, ...] = ()
    unread: list[tuple[int, str]] = field(default_factory=list)
    hetjob: int = 0

    def add(self, name: str, value: str, line: int) -> None:
        self.options.append(Option(name, literal(value, line), line))

    @property
    def nodes(self) -> int | None:
        """The nodes of the job, None where the scheduler decides."""
        single = self.count("ntasks") == 1 or not self.has("ntasks", "gpus")
        default = 1 if single or self.count("gpus") == 1 else self._packed
        asked, most = self.count("nodes"), self.count("ntasks")
        if asked and most and self.scheduler == "slurm":
            return min(asked, most)  # Slurm gives no node without a task
        return asked or (None if self.text("nodes") else self._named or default)

    @property
    def _named(self) -> int | None:
        """The nodes of --nodelist=a,b, where it gives their number."""
        names = self.text("nodelist").split(",")
        counted = len(names) > 1 and not self.has("ntasks") and "[" not in self.text("nodelist")
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
        if tasks or self.has("ntasks-per-gpu", "ntasks-per-socket"):
            return None
        return 1

    @property
    def tasks(self) -> int | None:
        each, nodes = self.tasks_per_node, self.nodes
        return self.count("ntasks") or (each * nodes if each and nodes else None)

    @property
    def wants_gpus(self) -> bool:
        named = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
        gres = (self.text("gres"), self.text("tres-per-task"))
        counted = any(self.text(name) not in ("", "0") for name in named)
        return counted or any("gpu" in text for text in gres)

    @property
    def gpus_per_node(self) -> int | None:
        """The GPUs of each node, None where that is not said."""
        if each := self.text("gpus-per-node"):
            return gpus.typed(each)[1]
        if in_gres := gpus.in_gres(self.text("gres")):
            return in_gres[1]
        nodes, tasks = self.nodes, self.tasks_per_node
        if total := self.text("gpus"):
            count = gpus.typed(total)[1]
            return count // nodes if nodes and count % nodes == 0 else None
        if each := self.text("gpus-per-task"):
            return gpus.typed(each)[1] * tasks if tasks else None
        return None

    @property
    def gpu_types(self) -> set[str]:
        """What stands for the type of the job's GPUs, as a100 of `gpu:a100:4`."""
        asked = [self.text(name) for name in ("gpus-per-node", "gpus", "gpus-per-task")]
        gres = [part.partition(":") for part in self.text("gres").split(",")]
        asked += [rest for name, _, rest in gres if name == "gpu"]
        return {gpus.typed(text)[0] for text in asked if text} - {""}

    @property
    def gpu_type(self) -> str:
        """The type of the job's GPUs, "" for none, several, or no name."""
        kind = "".join(self.gpu_types) if len(self.gpu_types) == 1 else ""
        return kind if re.fullmatch(r"[\w.-]+", kind) else ""

    @property
    def exclusive(self) -> bool:
        """Whether no other job is on the nodes: whole ones by the words of some sites."""
        nersc = self.has("constraint") and self.text("qos") in ("regular", "debug", "premium")
        jsc = any(each in self.text("partition") for each in ("booster", "dc-gpu"))
        by_place = self.text("place").startswith(("excl", "scatter:excl"))
        of_site = self.has("exclusive", "filesystems", "environment")  # ALCF and CSCS
        return of_site or nersc or jsc or by_place or self.scheduler == "cobalt"

    def given(self) -> Mapping[str, str]:
        """Return the variables of the job that the directives fix."""
        if not self.scheduler:
            return {}  # the command line of sbatch may have asked for any
        values: dict[str, str | int | None] = {v: self.text(n) for v, n in VARIABLES.items()}
        values |= {
            "SLURM_NTASKS": self.count("ntasks") or (self.tasks if self.nodes else None),
            "SLURM_NNODES": self.nodes if self.count("nodes") else self._packed,
            "SLURM_GPUS_ON_NODE": self.gpus_per_node,
            "PWD": self.text("chdir"),
        }
        values["SLURM_NPROCS"] = values["SLURM_NTASKS"]
        values["SLURM_JOB_NUM_NODES"] = values["SLURM_NNODES"]
        if self.scheduler == "pbs" and self.nodes:
            values = {NODES: self.nodes, LINES: self.nodes * (self.count("ntasks-per-node") or 1)}
        values[GPUS] = self.gpus_per_node
        return {name: str(value) for name, value in values.items() if value}


def read(text: str) -> Directives:
    """Return what a script's directives ask for; those of the first kind that is there count."""
    mark = next((m for line in text.split("\n") for m in MARKS if _is(line, m)), "")
    job = Directives(MARKS.get(mark, ""))
    for number, line in head(text) if mark else ():
        words = line[len(mark) :].strip()
        if not _is(line, mark):
            continue
        if words in ("hetjob", "packjob"):
            job.hetjob = number
        else:
            _add(job, words, number)
    _ranks_by_gpus(job)
    if "+" in job.text("select"):
        job.hetjob = job.line_of("select")
    return job


def _ranks_by_gpus(job: Directives) -> None:
    """Add the tasks that --ntasks-per-gpu, or --gpus with --gpus-per-task, asks for."""
    ranks, share = job.count("ntasks-per-gpu"), job.count("gpus-per-task")
    gpus_of_node, total = job.gpus_per_node, job.count("gpus") or 0
    if job.has("ntasks"):
        return
    if ranks and gpus_of_node and not job.has("ntasks-per-node"):
        job.add("ntasks-per-node", str(ranks * gpus_of_node), job.line_of("ntasks-per-gpu"))
        job.options = [each for each in job.options if each.name != "ntasks-per-gpu"]
    elif share and total >= share:
        job.add("ntasks", str(total // share), job.line_of("gpus-per-task"))


def _is(line: str, mark: str) -> bool:
    return line.startswith(mark) and line[len(mark) : len(mark) + 1] in (" ", "\t", "-", "")


def head(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines before the first command, as sbatch does: comments and empty ones."""
    lines = enumerate(text.split("\n"), 1)
    return takewhile(lambda each: each[1][:1] == "#" or not each[1].strip(), lines)


def late(comments: Mapping[int, str], text: str, job: Directives) -> tuple[int, ...]:
    first = len(list(head(text)))
    marks = [mark for mark, scheduler in MARKS.items() if scheduler == job.scheduler]
    marked = ((n, line, m) for n, line in comments.items() for m in marks if _is(line, m))
    return tuple(n for n, line, m in marked if n > first and line[len(m) :].lstrip()[:1] == "-")


def _add(job: Directives, text: str, line: int) -> None:
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
            _add_resources(job, option.text, line)
        else:
            job.options.append(replace(option, name=names.get(option.name, option.name)))


def _add_resources(job: Directives, text: str, line: int) -> None:
    """Add what PBS's -l asks for, under Slurm's names where the meaning is the same."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name in ("select", "nodes") and "+" in value:
            job.add("select", value, line)
        elif name in ("select", "nodes"):
            count, _, rest = value.partition(":")
            job.add("nodes", count, line)
            for each in rest.split(":") if rest else ():
                key, _, number = each.partition("=")
                name = OF_CHUNKS.get(key, key) if number else "property"
                job.add(name, number or key, line)
        else:
            job.add("time" if name == "walltime" else name, value, line)
