"""Ranks of the trial -> findings: one world, right places, one image."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from ...core.remedy import advice, change
from ..finding import FAILURE, OK, WARNING, Finding

SUBJECT = "world"
Record = dict[str, Any]


def check(ranks: list[Record], expected: int) -> list[Finding]:
    """Return whether the ranks of the trial are `expected` in number, distinct and well placed."""
    return [
        _one_world(ranks, expected),
        _places(ranks),
        *_launcher(ranks),
        *_gpus(ranks),
        _image(ranks),
    ]


def _one_world(ranks: list[Record], expected: int) -> Finding:
    seen = sorted(record["rank"] for record in ranks)
    sizes = sorted({record["size"] for record in ranks})
    per_host = Counter(record["host"] for record in ranks)
    evidence = ", ".join(f"{count} on {host}" for host, count in sorted(per_host.items()))
    if seen == list(range(expected)) and sizes == [expected]:
        says = f"{expected} rank{'s' * (expected > 1)}, distinct, in one world"
        return Finding(SUBJECT, "ranks", OK, says, evidence)
    says = f"{expected} ranks were started; these came: {seen}, in a world of {sizes}"
    fix = change(controller="gloo")
    return Finding(SUBJECT, "ranks", FAILURE, says, evidence, fix)


def _places(ranks: list[Record]) -> Finding:
    wrong = [*_wrong_local(ranks), *_wrong_cross(ranks)]
    lines = "\n".join(_place(record) for record in sorted(ranks, key=lambda r: r["rank"]))
    if not wrong:
        return Finding(SUBJECT, "places", OK, "local ranks and cross ranks are right", lines)
    evidence = "\n".join([*wrong, lines])
    says = "local or cross ranks are wrong: two ranks may take one GPU"
    return Finding(SUBJECT, "places", FAILURE, says, evidence, change(controller="gloo"))


def _place(record: Record) -> str:
    local = f"local {record['local_rank']} of {record['local_size']}"
    return f"rank {record['rank']}@{record['host']}: {local}, cross {record['cross_rank']} of " + (
        str(record["cross_size"])
    )


def _wrong_local(ranks: list[Record]) -> list[str]:
    """Each node's local ranks must be 0 to its number of ranks, in each order."""
    hosts: dict[str, list[Record]] = defaultdict(list)
    for record in ranks:
        hosts[record["host"]].append(record)
    return [
        f"{host} has local ranks {_sorted(group, 'local_rank')}"
        for host, group in sorted(hosts.items())
        if _sorted(group, "local_rank") != list(range(len(group)))
        or {record["local_size"] for record in group} != {len(group)}
    ]


def _wrong_cross(ranks: list[Record]) -> list[str]:
    """The ranks with one local rank, one on each node that has so many, must be numbered."""
    columns: dict[int, list[Record]] = defaultdict(list)
    for record in ranks:
        columns[record["local_rank"]].append(record)
    return [
        f"local rank {local} has cross ranks {_sorted(group, 'cross_rank')}"
        for local, group in sorted(columns.items())
        if _sorted(group, "cross_rank") != list(range(len(group)))
        or {record["cross_size"] for record in group} != {len(group)}
    ]


def _sorted(group: list[Record], name: str) -> list[int]:
    return sorted(record[name] for record in group)


def _launcher(ranks: list[Record]) -> list[Finding]:
    """Slurm's own numbers, where it started the ranks, should be Horovod's."""
    pairs = (("SLURM_PROCID", "rank"), ("SLURM_LOCALID", "local_rank"))
    other = [
        f"{record['host']}: {name}={record['told'][name]}, Horovod's {word} {record[word]}"
        for record in ranks
        for name, word in pairs
        if name in record["told"] and int(record["told"][name]) != record[word]
    ]
    if not other or any(record["local_size"] == record["size"] for record in ranks):
        return []  # on one node mpirun may have started them all within one task
    says = "Horovod numbers the ranks otherwise than Slurm: bindings by task are not by rank"
    return [Finding(SUBJECT, "numbers", WARNING, says, "\n".join(other), change(controller="gloo"))]


def _gpus(ranks: list[Record]) -> list[Finding]:
    """Each rank should have a GPU of its own."""
    named = [record for record in ranks if record["gpu"]]
    if not named:
        return []
    lines = "\n".join(f"rank {r['rank']}@{r['host']}: {r['device']}, {r['gpu']}" for r in named)
    if len({record["gpu"] for record in named}) == len(named):
        return [Finding(SUBJECT, "GPUs", OK, "each rank has one of its own", lines)]
    says = "several ranks use one GPU: NCCL refuses that"
    fix = "runner launch --gpus-per-node N --ntasks-per-node N ..."
    return [Finding(SUBJECT, "GPUs", FAILURE, says, lines, advice(fix))]


def _image(ranks: list[Record]) -> Finding:
    """Every node's first rank looked at the file."""
    views = {record["host"]: record["image"] for record in ranks if record.get("image")}
    lines = "\n".join(f"{host}: {_view(view)}" for host, view in sorted(views.items()))
    problems = {view["problem"] for view in views.values() if "problem" in view}
    if problems or not views:
        says = "the nodes' views of the image were not compared"
        return Finding(SUBJECT, "image", WARNING, says, lines, advice("runner verify IMAGE"))
    if len({(view["sha256"], view["size"]) for view in views.values()}) == 1:
        of = next(iter(views.values()))["of"]
        says = f"one digest on {len(views)} nodes (sha256 of {of})"
        return Finding(SUBJECT, "image", OK, says, lines)
    says = "the nodes do not see the same image"
    fix = "sha256sum IMAGE on each node; copy it again to a file system that all share"
    return Finding(SUBJECT, "image", FAILURE, says, lines, advice(fix))


def _view(view: Record) -> str:
    if "problem" in view:
        return str(view["problem"])
    facts = f"{view['size']} bytes, inode {view['inode']} of device {view['device']}"
    return f"{view['sha256'][:16]}..., {facts}, changed {view['mtime']:.0f}"
