"""Rules about what the shell, and Slurm, make of a script."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from runners.core.command_line import without_secret
from runners.core.text import count
from runners.schedulers.base import limit_seconds

from .. import directives
from ..commands import Command
from ..programs import names
from ..script import Script
from ..step import JobStep, Layer
from ..unwrap import unwrap
from ..words import Word, literal
from .ranks import ranks_per_node, tasks_per_node
from .rule import Places, rule

COUNTS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-gpu", "mincpus")
SIGNALS = {"10": "USR1", "12": "USR2", "15": "TERM"}
PLACEHOLDERS = names("your xxx < changeme ... insert todo my_ path/to key_here")
NO_SECRETS = names("TOKENIZER TOKENS KEYS TOKENIZERS_PARALLELISM PUBLIC")
WAITING = names("wait sleep tail fg exec")
MARK = re.compile(r"#!?([A-Za-z]+)\s+--?[A-Za-z]")  # of a directive
BROKEN = re.compile(r"[^#]\s\\[ \t]+(#.*)?$")  # a continued line, but for the blank
GLUED = re.compile(r"[\w\"'}]\\\n\"?-")  # no blank between a word and the option of the next line


def _sruns(script: Script) -> Iterator[tuple[JobStep, Layer]]:
    return ((step, step.starter) for step in script.steps if step.starter.name == "srun")


def inherits_cpus(version: str) -> bool:
    """Whether srun of this Slurm, "" for an unknown one, respects the job's --cpus-per-task.

    NOTE: CHANGELOG of 22.05 ("srun no longer inherits SLURM_CPUS_PER_TASK") and of 23.11 ("get back
    the previous behavior").
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return bool(numbers) and not (22, 5) <= numbers < (23, 11)


@rule
def srun_cpus_per_task(script: Script) -> Places:
    if (script.job.count("cpus-per-task") or 1) == 1 or inherits_cpus(script.site.slurm_version):
        return
    for step, srun in _sruns(script):
        bind = srun.text("cpu-bind")
        known = srun.get("cpus-per-task") or "SRUN_CPUS_PER_TASK" in step.variables
        if known or "mask" in bind or "map" in bind:
            continue
        ranks = ranks_per_node(script.job, step) if step.agent else 1
        whose = f"{ranks} ranks" if ranks and ranks > 1 else "each task"
        version = script.site.slurm_version or "22.05 to 23.02"
        what = f"with Slurm {version} srun gives {whose} 1 CPU, whatever --cpus-per-task of the job"
        yield srun.line, what, "srun --cpus-per-task=$SLURM_CPUS_PER_TASK ..."


@rule
def cpus_missing(script: Script) -> Places:
    job = script.job
    whole = job.exclusive or job.scheduler != "slurm"  # others give CPUs by chunks or whole nodes
    given, tasks = job.has("cpus-per-task"), job.tasks_per_node
    if whole or not (job.wants_gpus and tasks) or (job.has(*COUNTS) and not given):
        return
    for step in script.steps:
        ranks, srun = ranks_per_node(job, step) or 0, step.starter.name == "srun"
        cpus = (job.count("cpus-per-task") or 1) * (1 if srun else tasks)
        counted = step.starter.has("cpus-per-task", "cpus-per-gpu", *(["ntasks"] if srun else []))
        if ranks > cpus and not counted and (step.agent or (step.starter and not srun)):
            unless = "" if given else ", no --cpus-per-task (unless the site counts by GPUs)"
            right = f"--cpus-per-task={ranks * 4}, say: the CPUs of all {ranks} ranks"
            yield step.line, f"{ranks} ranks on {count(cpus, 'CPU')}{unless}", right


@rule
def gpus_per_task(script: Script) -> Places:
    job = script.job
    job_has_it = job.text("gpus-per-task") not in ("", "0")
    for _, srun in _sruns(script):
        of_step, flags = srun.get("gpus-per-task"), job.text("gres-flags") + srun.text("gres-flags")
        bound = "none" not in (job.text("gpu-bind"), srun.text("gpu-bind"))
        tasks = srun.count("ntasks") or job.tasks
        several = 1 not in (tasks, tasks_per_node(job, srun))
        shared = "allow-task-sharing" in flags
        if several and bound and not shared and (of_step or job_has_it):
            what = "--gpus-per-task hides the other ranks' GPUs: NCCL copies through the host's"
            right = "--gpus-per-node, or --gres-flags=allow-task-sharing beside it"
            yield of_step.line if of_step else job.line_of("gpus-per-task"), f"{what} memory", right


@rule
def export_none(script: Script) -> Places:
    reset = "SLURM_EXPORT_ENV" in script.text
    for _, srun in _sruns(script):
        of_step = srun.get("export")
        text = of_step.text if of_step else ("" if reset else script.job.text("export"))
        if text and "ALL" not in text.upper().split(","):
            what = f"--export={text}: no other variable reaches the ranks, PATH neither"
            yield (srun.line if of_step else script.job.line_of("export")), what, "--export=ALL"


@rule
def conda_init(script: Script) -> Places:
    for command in script.content.commands:
        words = [word.text for word in command.arguments]
        init = words[:1] == ["init"] or words[:2] == ["shell", "init"]
        if command.name in ("conda", "mamba", "micromamba") and init:
            what = (
                f"{command.name} init writes into ~/.bashrc, for later shells and not for this one"
            )
            yield command.line, what, f'eval "$({command.name} shell.bash hook)", once in each job'


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


@rule
def pipe_exit_code(script: Script) -> Places:
    checked = "PIPESTATUS" in script.text or "pipefail" in script.text.split("\n", 1)[0]
    for step in script.steps:
        if (pipe := step.command.pipe) and not step.command.pipefail and not checked:
            yield step.line, f"{pipe[-1]} hides the trainer's exit code", "set -o pipefail above it"


@rule
def background_without_wait(script: Script) -> Places:
    commands = script.content.commands
    for step in script.steps:
        order = step.command.order
        waits = any(command.name in WAITING for command in commands[order + 1 :])
        later = [step.command for step in script.steps if step.command.order > order]
        goes_on = not all(command.background for command in later)
        if step.command.background and not waits and not goes_on:
            what = "the script ends while this runs: it is killed"
            yield step.line, what, "wait, as the last line"


@rule
def secret_in_script(script: Script) -> Places:
    for line, name in _secrets(script):
        right = "export it where you submit the job, and write nothing here"
        yield line, f"{name} has its secret written down", right


def _secrets(script: Script) -> Iterator[tuple[int, str]]:
    named = [
        (assignment.line, assignment.name, assignment.value)
        for assignment in script.content.assignments
    ]
    for step in script.steps:
        named += [(value.line, name, value) for name, value in step.env.items()]
    yield from ((line, name) for line, name, value in named if _is_secret(name, value))
    for command in script.commands:
        yield from ((word.line, name) for word, name in secrets(command).items())


def secrets(command: Command) -> dict[Word, str]:
    """Return the arguments of a command that are secret, each with the name of its option."""
    login = command.text.startswith("wandb login ")
    named = [("wandb login", word, word) for word in command.words[2:] if login]
    for word, after in zip(command.words, (*command.words[1:], literal(""))):
        option, *value = word.split("=", 1)
        if option.text.startswith("--"):
            named.append((option.text, value[0], word) if value else (option.text, after, after))
    return {word: name for name, value, word in named if _is_secret(name, value)}


def _is_secret(name: str, value: Word) -> bool:
    text, upper = value.known or "", name.upper().strip("-").replace("-", "_")
    looks = without_secret(f"{upper}=x") == upper and not any(word in upper for word in NO_SECRETS)
    if "KEY" in upper:
        looks = any(word in upper for word in ("API", "ACCESS", "SECRET", "PRIVATE"))
    fits = len(text) >= 8 and len(text.split()) == 1 and not text.isdecimal()
    plain = not text.startswith(("/", "~", "--"))
    placed = any(word in text.lower() for word in PLACEHOLDERS)
    return fits and plain and not placed and (looks or name == "wandb login")


@rule
def stray_blank(script: Script) -> Places:
    lines = script.text.split("\n")
    for command in script.content.commands:
        last = command.line + command.source.count("\n")
        if glued := GLUED.search(command.source):
            line = command.line + command.source.count("\n", 0, glued.start())
            what = "no blank before the backslash: the next line goes on with this word"
            yield line, what, "a blank before \\"
        elif BROKEN.search(lines[last - 1]):
            what = "the command ends here: a backslash with a blank behind it continues no line"
            yield last, what, "the backslash as the last sign of the line"
        elif command.words[0].start.startswith("-") and not lines[last - 1].endswith(")"):
            what = "this is run as a command of its own: no backslash ends the line before"
            yield command.line, what, "\\ as the last sign of the line before"
        elif command.name == "srun" and command.arguments and _no_program(command):
            what = "srun gets no program: no backslash ends this line"
            yield last, what, "a backslash at its end"
        elif [word.text for word in command.arguments[:1]] == ["="] and command.name.isidentifier():
            what = f"this starts a program {command.name}, and sets no variable"
            yield command.line, what, f"{command.name}=... without blanks"


def _no_program(command: Command) -> bool:
    step = unwrap(command)
    return not step.program and step.starter.text("mpi") != "list"


@rule
def windows_line_ends(script: Script) -> Places:
    if script.windows:
        what = "lines end as on Windows (\\r\\n): sbatch refuses the script"
        yield script.windows, what, "sed -i 's/\\r$//' on the script"
