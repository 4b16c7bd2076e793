"""What a study asks: sizes, variants and repeats of one training; its runs in order. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..core.errors import UsageError, nearest
from ..core.text import count
from ..settings import sweep
from ..settings.config import check_table
from ..settings.table import LISTS, SETTINGS

# What the study itself decides, for every run.
OWN = frozenset(("nodes", "ntasks", "runs-dir", "output", "error"))
TRAINER = "trainer"
EXCHANGE = "exchange"  # an option of packaged trainers: what averages the gradients
SIZE = re.compile(r"([1-9]\d{0,5})(?:x([1-9]\d{0,3}))?")
BATCH = "--batch-size"


@dataclass(frozen=True, order=True)
class Size:
    """A number of nodes, and the ranks on each; None leaves that to --ntasks-per-node."""

    nodes: int
    per_node: int | None = None

    def __str__(self) -> str:
        return f"{self.nodes}" if self.per_node is None else f"{self.nodes}x{self.per_node}"


@dataclass(frozen=True)
class StudyVariant:
    """One way to run it: what differs from the others: settings, `trainer`, its `exchange`."""

    label: str = ""
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Point:
    """One run of the study: a size, a variant, and which repeat it is."""

    size: Size
    variant: StudyVariant
    repeat: int

    @property
    def key(self) -> str:
        """Its name, which is that of its folder too."""
        way = re.sub(r"[^A-Za-z0-9.]+", "_", self.variant.label).strip("_")
        return "-".join(part for part in (f"{self.size}n", way, f"r{self.repeat}") if part)


@dataclass(frozen=True)
class StudyRequest:
    """A whole study. `flags` are the settings given, as lists, numbers, texts and switches.

    With `strong` the samples of a step stay the same in all; else those of each rank. `drop` is the
    number of epochs that warm up.
    """

    trainer: str
    args: tuple[str, ...]
    sizes: tuple[Size, ...]
    variants: tuple[StudyVariant, ...] = (StudyVariant(),)
    repeats: int = 3
    strong: bool = False
    drop: int = 1
    flags: tuple[tuple[str, Any], ...] = ()

    def points(self) -> list[Point]:
        """Return all runs, repeat by repeat, each repeat in an order of its own.

        A machine that grows warm or busy must not meet the sizes in their order: a randomised
        complete block design (Fisher 1935, The Design of Experiments).
        """
        points = []
        for repeat in range(1, self.repeats + 1):
            block = [Point(s, v, repeat) for s in self.sizes for v in self.variants]
            random.Random(repeat).shuffle(block)  # noqa: S311  no secret
            points += block
        return points

    def settings(self, point: Point) -> dict[str, Any]:
        """Return the settings of one run, the trainer and its exchange left out."""
        values = {**dict(self.flags), **dict(point.variant.settings), "nodes": point.size.nodes}
        for name in (TRAINER, EXCHANGE):
            values.pop(name, None)
        if point.size.per_node is not None:
            values.update(_on_each_node(values, point.size.per_node))
        return values

    def trainer_of(self, point: Point) -> str:
        return str(dict(point.variant.settings).get(TRAINER, self.trainer))

    def args_of(self, point: Point, ranks: int = 1) -> tuple[str, ...]:
        """Return the trainer's arguments for a number of ranks; UsageError if indivisible.

        A strong study changes them: --batch-size is then that of all ranks together.
        """
        exchange = dict(point.variant.settings).get(EXCHANGE)
        args = (*self.args, *((f"--{EXCHANGE}", exchange) if exchange else ()))
        if not self.strong:
            return args
        place, batch = _batch(args)
        if batch % ranks:
            raise UsageError(
                f"--strong: {BATCH} {batch} cannot be shared by {ranks} ranks",
                "it is the number of samples in a step of all ranks together",
                f"{BATCH} {-(-batch // ranks) * ranks}",
                id="strong-batch-uneven",
            )
        share = str(batch // ranks)
        words = list(args)
        words[place] = share if words[place].isdigit() else f"{BATCH}={share}"
        return tuple(words)


def _on_each_node(values: Mapping[str, Any], ranks: int) -> dict[str, Any]:
    """Return the ranks of a node, each with a GPU of its own where GPUs are asked for."""
    gpus = values.get("gpus-per-node")
    if gpus in (None, "0"):
        return {"ntasks-per-node": ranks}
    kind, colon, _ = str(gpus).rpartition(":")
    return {"ntasks-per-node": ranks, "gpus-per-node": f"{kind}{colon}{ranks}"}


def number(args: Sequence[str], option: str) -> tuple[int, int] | None:
    """Return where the number after an option of the trainer stands among the words, and it."""
    for place, word in enumerate(args):
        if word.startswith(f"{option}=") and word.partition("=")[2].isdigit():
            return place, int(word.partition("=")[2])
        if word == option and place + 1 < len(args) and args[place + 1].isdigit():
            return place + 1, int(args[place + 1])
    return None


def _batch(args: Sequence[str]) -> tuple[int, int]:
    batch = number(args, BATCH)
    if batch is None:
        raise UsageError(
            f"--strong needs the trainer's {BATCH}",
            "which is then the number of samples in a step of all ranks together, shared by them",
            f"runner scale --strong ... TRAINER -- {BATCH} 256",
            id="strong-without-batch",
        )
    return batch


def check_epochs(args: Sequence[str], drop: int) -> None:
    """Raise UsageError where no epoch would be left after those that warm up."""
    epochs = number(args, "--epochs")
    if epochs and epochs[1] <= drop:
        raise UsageError(
            f"--drop {drop} leaves none of --epochs {epochs[1]}",
            "the first epochs warm up and are not measured",
            f"--epochs {drop + 5}, or --drop 0 to measure the first epoch",
            id="drop-all-epochs",
        )


def may_be_short(args: Sequence[str], drop: int) -> list[str]:
    """Return a warning if the training may end within the warm-up epochs."""
    steps = number(args, "--max-steps")
    if not steps or not drop:
        return []
    return [
        f"--max-steps {steps[1]} may end in the first {count(drop, 'epoch')}, which warm up and "
        "are not measured; --drop 0 measures them"
    ]


def sizes(text: str) -> tuple[Size, ...]:
    """Read `1,2,4,8` nodes, each perhaps with its ranks as in `1x1,1x4,2x4`."""
    sizes = []
    for word in text.split(","):
        match = SIZE.fullmatch(word.strip())
        if not match:
            raise UsageError(
                f"--nodes {text!r} is not a list of numbers of nodes",
                f"{word!r} is none",
                "--nodes 1,2,4 or, with the ranks on each node, --nodes 1x1,1x4,2x4",
                id="nodes-not-numbers",
            )
        sizes.append(Size(int(match.group(1)), int(match.group(2)) if match.group(2) else None))
    if len(set(sizes)) != len(sizes):
        raise UsageError(f"--nodes {text} names a size twice", id="nodes-named-twice")
    return tuple(sorted(sizes))


def variants(texts: Sequence[str]) -> tuple[StudyVariant, ...]:
    """Read `NAME=VALUE,VALUE` texts; return each combination of their values.

    A value may bring other settings along: `runtime=apptainer,none+image=/path`.
    """
    ways = [_variant(values) for values in sweep.combinations(sweep.axes(sweep.VARY, texts))]
    labels = [Point(Size(1), way, 1).key for way in ways]
    if len(set(labels)) != len(labels):
        raise UsageError(
            "--vary has two values of the same name", " ".join(texts), id="vary-same-name"
        )
    return tuple(ways)


def _variant(values: Mapping[str, str]) -> StudyVariant:
    """Return a value of each axis as one variant, with what it brings along after each `+NAME=`."""
    labels, settings = [], []
    for name, text in values.items():
        first, *others = re.split(r"\+(?=[a-z-]+=)", text)
        labels.append(first.rstrip("/").rpartition("/")[2])
        pairs = [(name, first)] + [tuple(pair.split("=", 1)) for pair in others]
        settings += [(key, _value(key, value)) for key, value in pairs]
    return StudyVariant(" ".join(labels), tuple(settings))


def _value(name: str, text: str) -> Any:
    """Return a setting's value as its kind; raise UsageError for an unknown name or a bad value."""
    if name in (TRAINER, EXCHANGE):
        return text
    setting = SETTINGS.get(name)
    if setting is None or name in OWN | LISTS:
        free = [free_name for free_name in SETTINGS if free_name not in OWN | LISTS]
        raise UsageError(
            f"--vary {name}: it cannot vary",
            nearest(name, [*free, TRAINER, EXCHANGE]),
            id="vary-unknown",
        )
    value: Any = text
    if setting.kind == "int" and text.isdigit():
        value = int(text)
    elif setting.kind == "number" and re.fullmatch(r"\d+(\.\d*)?", text):
        value = float(text)
    elif setting.kind == "switch" and text in ("true", "false"):
        value = text == "true"
    return check_table("--vary", {name: value}).values[name]


def asked(
    trainer: str | None,
    args: tuple[str, ...],
    nodes: str | None,
    vary: Sequence[str],
    flags: Mapping[str, Any],
    **more: Any,
) -> StudyRequest:
    """Return the study of a trainer on these nodes; `more` are fields that are as they were given.

    Raises UsageError without a trainer or nodes, and as `sizes` and `variants`.
    """
    if not trainer or not nodes:
        raise UsageError(
            "there is no trainer" if not trainer else "--nodes is not given",
            remedy=f"runner scale --image IMAGE --nodes 1,2,4 {trainer or 'TRAINER'}",
            id="trainer-not-given" if not trainer else "nodes-not-given",
        )
    given = tuple(
        (name, value)
        for name, value in flags.items()
        if name not in OWN and value not in (None, [])
    )
    return StudyRequest(trainer, args, sizes(nodes), variants(vary), flags=given, **more)


def as_json(question: StudyRequest) -> dict[str, Any]:
    """Return the question as it goes into study.json."""
    return {
        **asdict(question),
        "sizes": [str(size) for size in question.sizes],
        "variants": [{"label": v.label, "settings": dict(v.settings)} for v in question.variants],
        "flags": dict(question.flags),
    }


def from_json(value: Mapping[str, Any]) -> StudyRequest:
    """Read it again; raises KeyError, TypeError or UsageError for what is none."""
    ways = tuple(StudyVariant(v["label"], tuple(v["settings"].items())) for v in value["variants"])
    read = {"args": tuple(value["args"]), "sizes": sizes(",".join(value["sizes"]))}
    return StudyRequest(
        **{**value, **read, "variants": ways, "flags": tuple(value["flags"].items())}
    )
