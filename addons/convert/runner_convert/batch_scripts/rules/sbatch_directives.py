"""Rules about directives, and what Slurm makes of them: options, limits, logs, signals."""

from __future__ import annotations

import re
from collections import Counter

from runners.schedulers.base import limit_seconds

from .. import directives
from ..script import Script
from .rule import Places, rule

SIGNALS = {"10": "USR1", "12": "USR2", "15": "TERM"}
MARK = re.compile(r"#!?([A-Za-z]+)\s+--?[A-Za-z]")  # of a directive


@rule
def late_directive(script: Script) -> Places:
    comments = script.content.comments
    for line in directives.late(comments, script.text, script.job.scheduler):
        text = comments[line]
        yield line, f"{text} is ignored: it stands after the first command", "move it to the top"


@rule
def shebang(script: Script) -> Places:
    head = [*directives.head(script.text)]
    later = [n for n, line in head if line.startswith("#!/")]
    if script.job.scheduler == "slurm" and later and not script.text.startswith("#!"):
        what = "sbatch refuses a script that does not begin with #!"
        yield 1, what, f"line {later[0]} as the first line"


@rule
def misspelt_directive(script: Script) -> Places:
    for line, text in script.content.comments.items():
        match = MARK.match(text) if script.job.scheduler in ("", "slurm") else None
        letters, mark = Counter(match[1].upper() if match else ""), Counter("SBATCH")
        differ = [*(letters - mark).elements(), *(mark - letters).elements()]
        plain = match is None or match[1] in ("SBATCH", "Batch") or match[1].islower()
        if match and not plain and differ in ([], *map(list, "SBATCH")):
            yield line, f"{text} is ignored: it is a comment", f"#SBATCH{text[match.end(1) :]}"
    for line, text in directives.head(script.text) if script.job.scheduler == "slurm" else ():
        name = "".join(re.findall(r"^#SBATCH\s+--([a-z-]+_[a-z_-]+)", text))
        if name and name not in ("cpu_bind", "mem_bind"):
            yield line, f"sbatch refuses --{name}", f"--{name.replace('_', '-')}"


@rule
def variable_in_directive(script: Script) -> Places:
    for option in script.job.options if script.job.scheduler == "slurm" else ():
        if "$" in option.text and option.name not in ("wrap", "comment"):
            what = f"{option.text} is not expanded in a directive"
            yield option.line, what, "the value itself, or %u, %x, %j"


@rule
def output_folder(script: Script) -> Places:
    if script.uses("sbatch"):
        return  # it submits itself, after mkdir
    makes = [command for command in script.content.commands if command.name == "mkdir"]
    made = {word.text.rstrip("/") for command in makes for word in command.arguments}
    for name in ("output", "error"):
        folder = script.job.text(name).rpartition("/")[0]
        if folder and {folder, f"./{folder}"} & made and script.job.scheduler == "slurm":
            what = f"Slurm opens {folder}/ before this script makes it: without it the job fails"
            yield script.job.line_of(name), what, f"mkdir -p {folder} before sbatch"


@rule
def time_limit(script: Script) -> Places:
    job, site, time = script.job, script.site, script.job.text("time")
    default = next((partition.name for partition in site.partitions if partition.default), "")
    queue = job.text("partition") or default or "the site"
    limits = {partition.name: partition.time_limit for partition in site.partitions}
    rules = site.profile.rules.max_time if site.profile else {}
    of_profile = [rules.get(name, "") for name in (queue, job.text("qos"), "*")]
    limit = next(filter(None, (limits.get(queue), *of_profile)), "")
    requested, most = (limit_seconds(text) if text else None for text in (time, limit))
    if requested and most and requested > most:
        what = f"--time={time} is more than {limit}, the limit of {queue}"
        yield job.line_of("time"), what, f"--time={limit}"


@rule
def signal_without_trap(script: Script) -> Places:
    text = script.job.text("signal")
    name = text[2:].partition("@")[0].upper().removeprefix("SIG") if text.startswith("B:") else ""
    traps = [command for command in script.content.commands if command.name == "trap"]
    names = {word.text.upper().removeprefix("SIG") for trap in traps for word in trap.arguments}
    if name and not {name, SIGNALS.get(name, name)} & names:
        what = f"there is no trap for {name}: --signal={text} only ends the script"
        yield script.job.line_of("signal"), what, f"--signal={text[2:]} for the ranks, or a trap"
