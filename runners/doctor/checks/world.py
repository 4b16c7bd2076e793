"""The ranks of the trial: are they one world, in the right places, of one image, on own CPUs?"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

from ...core.remedy import change
from ...schedulers.slurm_script import indices
from ..finding import FAILURE, About, Finding

ABOUT, CPUS = About("world"), About("CPUs")
Record = dict[str, Any]


def grouped(ranks: list[Record], name: str) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in ranks:
        groups[record[name]].append(record)
    return groups


def check(ranks: list[Record], expected: int) -> list[Finding]:
    """Return whether the ranks of the trial are `expected` in number, distinct and well placed."""
    looks = (_one_world(ranks, expected), _places(ranks), _gpus(ranks), _image(ranks))
    return [finding for finding in looks if finding]


def _one_world(ranks: list[Record], expected: int) -> Finding:
    seen = sorted(record["rank"] for record in ranks)
    sizes = sorted({record["size"] for record in ranks})
    per_host = Counter(record["host"] for record in ranks)
    evidence = ", ".join(f"{count} on {host}" for host, count in sorted(per_host.items()))
    return ABOUT.either(
        seen == list(range(expected)) and sizes == [expected],
        "ranks",
        f"{expected} rank{'s' if expected > 1 else ''}, distinct, in one process group",
        f"{expected} ranks were started; these joined: {seen}, with world size {sizes}",
        evidence,
        change(controller="gloo"),
        FAILURE,
    )


def _places(ranks: list[Record]) -> Finding:
    """Local ranks are numbered on each node, cross ranks among those with one local rank."""
    wrong = _wrong(ranks, "host", "local", "{}")
    if all("cross_rank" in record for record in ranks):  # Horovod's alone
        wrong += _wrong(ranks, "local_rank", "cross", "local rank {}")
    lines = [_place(record) for record in sorted(ranks, key=lambda r: r["rank"])]
    return ABOUT.either(
        not wrong,
        "places",
        "local ranks and cross ranks are right",
        "local or cross ranks are wrong: two ranks may take one GPU",
        "\n".join([*wrong, *lines]),
        change(controller="gloo"),
        FAILURE,
    )


def _place(record: Record) -> str:
    kinds = [kind for kind in ("local", "cross") if f"{kind}_rank" in record]
    numbers = [f"{kind} {record[f'{kind}_rank']} of {record[f'{kind}_size']}" for kind in kinds]
    return f"rank {record['rank']}@{record['host']}: {', '.join(numbers)}"


def _wrong(ranks: list[Record], by: str, kind: str, who: str) -> list[str]:
    """Return the groups of ranks that are not numbered from 0 on, or know another size."""
    mismatches = []
    for name, group in sorted(grouped(ranks, by).items()):
        numbers = sorted(record[f"{kind}_rank"] for record in group)
        sizes = {record[f"{kind}_size"] for record in group}
        if numbers != list(range(len(group))) or sizes != {len(group)}:
            mismatches.append(f"{who.format(name)} has {kind} ranks {numbers}")
    return mismatches


def _gpus(ranks: list[Record]) -> Finding | None:
    """Each rank should have a GPU of its own."""
    named = [record for record in ranks if record["gpu"]]
    if not named:
        return None
    return ABOUT.either(
        len({record["gpu"] for record in named}) == len(named),
        "GPUs",
        "each rank has one of its own",
        "several ranks use one GPU: NCCL refuses that",
        "\n".join(f"rank {r['rank']}@{r['host']}: {r['device']}, {r['gpu']}" for r in named),
        "runner launch --gpus-per-node N --ntasks-per-node N ...",
        FAILURE,
    )


def _image(ranks: list[Record]) -> Finding:
    """Every node's first rank looked at the file."""
    views = {record["host"]: record["image"] for record in ranks if record.get("image")}
    lines = "\n".join(f"{host}: {_view(view)}" for host, view in sorted(views.items()))
    problems = {view["problem"] for view in views.values() if "problem" in view}
    if problems or not views:
        says = "the nodes' views of the image were not compared"
        return ABOUT.warning("image", says, lines, "runner verify IMAGE")
    if len({(view["sha256"], view["size"]) for view in views.values()}) == 1:
        of = next(iter(views.values()))["of"]
        says = f"one digest on {len(views)} nodes (sha256 of {of})"
        return ABOUT.ok("image", says, lines)
    says = "the nodes do not see the same image"
    fix = "sha256sum IMAGE on each node; copy it again to a file system that all share"
    return ABOUT.failure("image", says, lines, fix)


def _view(view: Record) -> str:
    if "problem" in view:
        return str(view["problem"])
    facts = f"{view['size']} bytes, inode {view['inode']} of device {view['device']}"
    return f"{view['sha256'][:16]}..., {facts}, changed {view['mtime']:.0f}"


def cpus(ranks: list[Record]) -> list[Finding]:
    """Return whether ranks share CPUs, and whether each has as many as it starts threads."""
    return [_shared(ranks), *_threads(ranks)]


def _shared(ranks: list[Record]) -> Finding:
    lines = "\n".join(_cpus_of(record) for record in sorted(ranks, key=lambda r: r["rank"]))
    pairs = [pair for group in grouped(ranks, "host").values() for pair in combinations(group, 2)]
    together = [(a, b) for a, b in pairs if set(a["cpus"]) & set(b["cpus"])]
    if not together:
        says = "no two ranks of a node share a CPU"
        return CPUS.ok("affinity", says, lines)
    if all(set(a["cpus"]) == set(b["cpus"]) for a, b in together):
        says = "ranks of a node are not bound: they share its CPUs"
    else:
        first, second = together[0]
        says = f"ranks {first['rank']} and {second['rank']} have some CPUs in common"
    fix = "runner launch --cpu-bind cores --cpus-per-task N ..."
    return CPUS.warning("affinity", says, lines, fix)


def _threads(ranks: list[Record]) -> list[Finding]:
    short = [record for record in ranks if record.get("threads", 0) > len(record["cpus"])]
    if not short:
        return []
    threads, cpus = short[0]["threads"], len(short[0]["cpus"])
    says = f"{threads} threads on {cpus} CPUs, on {len(short)} ranks"
    fix = f"runner launch --cpus-per-task {threads} ..., or --env OMP_NUM_THREADS={cpus}"
    return [CPUS.warning("threads", says, "\n".join(map(_cpus_of, short)), fix)]


def _cpus_of(record: Record) -> str:
    """Return a rank's CPUs in one line."""
    name = f"rank {record['rank']}@{record['host']}"
    threads = f", {record['threads']} threads" if "threads" in record else ""
    return f"{name}: CPUs {indices(record['cpus'])} of {record['cpus_of_node']}{threads}"
