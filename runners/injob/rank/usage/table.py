"""What a job used, as a table with a row for each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .findings import Finding, options_in_words, sentence
from .job import NodeUse

NOT_MEASURED = "not measured"
MOST = 16  # nodes in the log
HEADERS = ("node", "ranks", "CPUs used", "memory peak", "network in, out", "files read, written")
OF_GPUS = ("GPU use", "GPU memory peak", "GPU power", "GPU clock")
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def rows(nodes: Sequence[NodeUse]) -> tuple[list[list[str]], list[str]]:
    """Return rows and headers. Columns of GPUs are one where none was measured."""
    gpus = OF_GPUS if any(one.gpus for one in nodes) else ("GPUs",)
    return [[*_row(one), *_gpus(one, len(gpus))] for one in nodes], [*HEADERS, *gpus]


def lines(nodes: Sequence[NodeUse], findings: Sequence[Finding], file: str) -> Iterator[str]:
    """Yield the lines for the end of the log."""
    cells, headers = rows(nodes[:MOST])
    widths = [max(map(len, column)) for column in zip(headers, *cells)]
    yield "runner: what the job used, by node (means, unless it says peak)"
    for row in (headers, *cells):
        yield "runner:   " + "  ".join(map(str.ljust, row, widths)).rstrip()
    if len(nodes) > MOST:
        yield f"runner:   and {len(nodes) - MOST} more nodes: {file}"
    for finding in findings:
        options = options_in_words(finding)
        yield f"runner: {sentence(finding)}" + (f"; try: {options}" if options else "")


def _row(node: NodeUse) -> list[str]:
    used = node.cpus_used
    traffic = node.interfaces
    network = None if traffic is None else [*map(sum, zip((0, 0), *traffic.values()))]
    files = node.files and [node.files["read_bytes"], node.files["written_bytes"]]
    return [
        node.host,
        str(node.ranks),
        NOT_MEASURED if used is None else f"{used:.1f} of {node.cpus}",
        _of(node.memory_peak_bytes, node.memory_limit_bytes),
        ", ".join(map(size, network)) if network else NOT_MEASURED,
        ", ".join(map(size, files)) if files else NOT_MEASURED,
    ]


def _gpus(node: NodeUse, columns: int) -> list[str]:
    if not node.gpus:
        return [NOT_MEASURED] * columns
    use, power = node.mean_of_gpus("use_mean"), node.mean_of_gpus("power_mean_watts")
    clock, highest = (node.mean_of_gpus(f"clock_{what}_mhz") for what in ("mean", "highest"))
    memory = [node.mean_of_gpus(f"memory_{what}_bytes") for what in ("peak", "total")]
    return [
        NOT_MEASURED if use is None else f"{100 * use:.0f} % of {len(node.gpus)}",
        _of(memory[0], memory[1]),
        NOT_MEASURED if power is None else f"{power:.0f} W",
        NOT_MEASURED
        if clock is None
        else f"{clock:.0f}" + (f" of {highest:.0f} MHz" if highest else " MHz"),
    ]


def _of(used: float | None, most: float | None) -> str:
    if used is None:
        return NOT_MEASURED
    return size(used) + (f" of {size(most)}" if most else "")


def size(number: float) -> str:
    """Return bytes as 1.2 GB, in powers of 1000."""
    for unit in UNITS:
        if number < 999.5 or unit == UNITS[-1]:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if number >= 99.5 or unit == "B" else f"{number:.1f} {unit}"
