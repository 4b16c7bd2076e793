"""The directives of a script: what its first lines ask of Slurm, PBS or Cobalt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from runners.core import gpus

from . import programs
from .command_substitution import GPUS, LINES, NODES
from .programs import OPTIONS, TABLES, Lookup, Option
from .words import literal

MARKS: dict[str, str] = TABLES["directives"]["marks"]
# Schedulers that runner does not know, by how their directives begin.
FOREIGN: dict[str, str] = TABLES["directives"]["foreign"]
# Slurm's names of the options of others.
PBS, COBALT, OF_CHUNKS = (TABLES["directives"][name] for name in ("pbs", "cobalt", "of_chunks"))
WHOLE_NODES: list[dict[str, str]] = TABLES["directives"]["whole_nodes"]
VARIABLES: dict[str, str] = TABLES["directives"]["variables"]  # of Slurm, and what gives them
# A place that the script leaves open: <my account>, { account }.
BLANK = re.compile(r"<([\w .'-]+)>|(?<![${])\{ *([\w(][\w .'/()*+=-]*?) *\}")


@dataclass(frozen=True)
class Directives(Lookup):
    """What a script asks of its scheduler ("" for none), by Slurm's long names where it has one.

    `unread` are the lines of those not understood, with the reason; `hetjob` is the line of one
    that makes the job heterogeneous.
    """

    scheduler: str = ""
    options: Sequence[Option] = ()
    unread: Sequence[tuple[int, str]] = ()
    hetjob: int = 0

    @property
    def nodes(self) -> int | None:
        """The nodes of the job, None where the scheduler decides."""
        single = self.count("ntasks") == 1 or not self.has("ntasks", "gpus")
        default = 1 if single or self.count("gpus") == 1 else self._packed
        nodes, most = self.count("nodes"), self.count("ntasks")
        if nodes and most and self.scheduler == "slurm":
            return min(nodes, most)  # Slurm gives no node without a task
        return nodes or (None if self.text("nodes") else self._named or default)

    @property
    def _named(self) -> int | None:
        """The nodes of --nodelist=a,b, where it gives their number."""
        names = self.text("nodelist").split(",")
        counted = len(names) > 1 and not self.has("ntasks") and "[" not in self.text("nodelist")
        return len(names) if counted else None

    @property
    def _packed(self) -> int | None:
        tasks, per_node = self.count("ntasks"), self.count("ntasks-per-node")
        return -(-tasks // per_node) if tasks and per_node else None

    @property
    def tasks_per_node(self) -> int | None:
        """The tasks of each node, None where Slurm decides; 1 where the script says nothing."""
        per_node, tasks, nodes = self.count("ntasks-per-node"), self.count("ntasks"), self.nodes
        if per_node and not (tasks and nodes and tasks < per_node * nodes):  # else it is the most
            return per_node
        if tasks and nodes:
            return tasks // nodes if tasks % nodes == 0 else None
        if tasks or self.has("ntasks-per-gpu", "ntasks-per-socket"):
            return None
        return 1

    @property
    def first_tasks(self) -> int | None:
        """The tasks of the first node: all where nothing tells the nodes; Slurm packs them."""
        return self.tasks_per_node or (None if self.nodes else self.count("ntasks"))

    @property
    def tasks(self) -> int | None:
        per_node, nodes = self.tasks_per_node, self.nodes
        return self.count("ntasks") or (per_node * nodes if per_node and nodes else None)

    @property
    def wants_gpus(self) -> bool:
        named = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
        gres = (self.text("gres"), self.text("tres-per-task"))
        counted = any(self.text(name) not in ("", "0") for name in named)
        return counted or any("gpu" in text for text in gres)

    @property
    def gpus_per_node(self) -> int | None:
        """The GPUs of each node, None where that is not said."""
        if request := self.text("gpus-per-node"):
            return gpus.typed(request)[1]
        if in_gres := gpus.in_gres(self.text("gres")):
            return in_gres[1]
        nodes, tasks = self.nodes, self.tasks_per_node
        if total := self.text("gpus"):
            count = gpus.typed(total)[1]
            return count // nodes if nodes and count % nodes == 0 else None
        if request := self.text("gpus-per-task"):
            return gpus.typed(request)[1] * tasks if tasks else None
        return None

    @property
    def gpu_types(self) -> set[str]:
        """What stands for the type of the job's GPUs, as a100 of `gpu:a100:4`."""
        requests = [self.text(name) for name in ("gpus-per-node", "gpus", "gpus-per-task")]
        gres = [part.partition(":") for part in self.text("gres").split(",")]
        requests += [rest for name, _, rest in gres if name == "gpu"]
        return {gpus.typed(text)[0] for text in requests if text} - {""}

    @property
    def gpu_type(self) -> str:
        """The type of the job's GPUs, "" for none, several, or no name."""
        kind = "".join(self.gpu_types) if len(self.gpu_types) == 1 else ""
        return kind if re.fullmatch(r"[\w.-]+", kind) else ""

    @property
    def exclusive(self) -> bool:
        """Whether no other job is on the nodes."""
        return self.scheduler == "cobalt" or any(
            all(self.has(name) and re.search(form, self.text(name)) for name, form in row.items())
            for row in WHOLE_NODES
        )

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
        if self.scheduler != "slurm" and self.nodes:
            lines = self.nodes * (self.count("ntasks-per-node") or 1)
            values = {NODES: self.nodes, LINES: lines, "COBALT_JOBSIZE": self.nodes}
        values[GPUS] = self.gpus_per_node
        return {name: str(value) for name, value in values.items() if value}


def read(text: str) -> Directives:
    """Return what a script's directives ask for; those of the first kind that is there count."""
    mark = next((m for line in text.split("\n") for m in MARKS if _is(line, m)), "")
    scheduler, hetjob = MARKS.get(mark, ""), 0
    options, unread = list[Option](), list[tuple[int, str]]()
    for number, line in head(text) if mark else ():
        words = line[len(mark) :].strip() if _is(line, mark) else ""
        if words in ("hetjob", "packjob"):
            hetjob = number
        elif words:
            more, problem = _options(words, number, scheduler)
            options += more
            unread += [(number, problem)] if problem else []
    job = Directives(scheduler, options, unread, hetjob)
    hetjob = job.line_of("select") if "+" in job.text("select") else hetjob
    return replace(job, options=_with_ranks_by_gpus(job), hetjob=hetjob)


def _with_ranks_by_gpus(job: Directives) -> Sequence[Option]:
    """Return the options, with the tasks that those of GPUs for each task ask for."""
    ranks, share = job.count("ntasks-per-gpu"), job.count("gpus-per-task")
    gpus_of_node, total = job.gpus_per_node, job.count("gpus") or 0
    if job.has("ntasks"):
        return job.options
    if ranks and gpus_of_node and not job.has("ntasks-per-node"):
        others = [option for option in job.options if option.name != "ntasks-per-gpu"]
        line = job.line_of("ntasks-per-gpu")
        return [*others, _option("ntasks-per-node", str(ranks * gpus_of_node), line)]
    if share and total >= share:
        tasks = _option("ntasks", str(total // share), job.line_of("gpus-per-task"))
        return [*job.options, tasks]
    return job.options


def _option(name: str, value: str, line: int) -> Option:
    return Option(name, literal(value, line), line)


def _is(line: str, mark: str) -> bool:
    return line.startswith(mark) and line[len(mark) : len(mark) + 1] in (" ", "\t", "-", "")


def head(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines before the first command, as sbatch does: comments and empty ones."""
    lines = enumerate(text.split("\n"), 1)
    return takewhile(lambda numbered: numbered[1][:1] == "#" or not numbered[1].strip(), lines)


def late(comments: Mapping[int, str], text: str, scheduler: str) -> Iterator[int]:
    """Return the lines of directives after the first command, which are ignored."""
    first = len(list(head(text)))
    marks = [mark for mark, whose in MARKS.items() if whose == scheduler]
    marked = ((n, line, m) for n, line in comments.items() for m in marks if _is(line, m))
    return (n for n, line, m in marked if n > first and line[len(m) :].lstrip()[:1] == "-")


def _options(text: str, line: int, scheduler: str) -> tuple[list[Option], str]:
    """Return the options of a directive, and why it is not understood."""
    whole = BLANK.sub(r'"<\1\2>"', text)
    try:
        words = [literal(word, line) for word in shlex.split(whole, comments=True)]
    except ValueError as error:
        return [], f"{text}: {error}"
    known = OPTIONS["srun" if scheduler == "slurm" else scheduler]
    read_ = programs.read(words, known)
    texts = [word.text for word in read_.rest]
    unknown = f"{' '.join(texts)}: no option" if texts else ""
    if texts and BLANK.fullmatch(texts[0]):  # for the user's own options
        unknown = f"{texts[0]}: no option"
        behind = programs.read(read_.rest[1:], known)
        read_ = replace(behind, options=[*read_.options, *behind.options])
    names, options = {"pbs": PBS, "cobalt": COBALT}.get(scheduler, {}), list[Option]()
    for option in read_.options:
        if scheduler == "pbs" and option.name == "l":
            options += _resources(option.text, line)
        else:
            options.append(replace(option, name=names.get(option.name, option.name)))
    return options, read_.problem or unknown


def _resources(text: str, line: int) -> Iterator[Option]:
    """Yield what PBS's -l asks for, under Slurm's names where the meaning is the same."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name in ("select", "nodes") and "+" in value:
            yield _option("select", value, line)
        elif name in ("select", "nodes"):
            count, _, rest = value.partition(":")
            yield _option("nodes", count, line)
            for part in rest.split(":") if rest else ():
                key, _, number = part.partition("=")
                name = OF_CHUNKS.get(key, key) if number else "property"
                yield _option(name, number or key, line)
        else:
            setting = "time" if name == "walltime" else OF_CHUNKS.get(name, name)  # of one chunk
            yield _option(setting, value, line)
