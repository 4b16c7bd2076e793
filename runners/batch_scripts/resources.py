"""Nodes, ranks and the other resources of a launch line, of directives and launchers."""

from __future__ import annotations

from dataclasses import replace

from ..core import gpus
from ..settings.table import SETTINGS
from .directives import Directives
from .draft import LaunchLine, Note
from .launch_parts import is_part
from .programs import NAMES, OPTIONS, Option
from .step import JobStep, Layer
from .words import BRANCH, RUN, Word, literal, unknown

COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
DIRECT = {name for name, setting in SETTINGS.items() if setting.group in ("slurm", "job")}
OF_GPUS = ("gpus", "gpus-per-node")
OF_PART = ("nodelist", "relative", "exclude", "gpus")  # of one node's agent
OF_SHIFTER = ("image", "volume", "module")
OF_OUTPUT, OF_IMAGE = NAMES["of_output"], NAMES["of_image"]
# What is left out of the directives of a scheduler, "" for all.
REASONS = {
    ("pbs", "V"): "-V: runner passes the environment on",
    ("pbs", "j"): "-j: runner's log has both outputs",
    ("cobalt", "output"): "-O: runner names the outputs itself",
    ("", "wrap"): "--wrap: it is of sbatch without a script",
    ("", "export"): "--export: runner passes the environment on itself",
}


def add(draft: LaunchLine, job: Directives, step: JobStep) -> None:
    for option in job.options:
        if option.name not in COUNTS:
            _directive(draft, option, job)
            if option.name in OF_SHIFTER and not step.container:
                text = f"--{option.name}={option.text}: this does not run in that image"
                draft.lose(option.line, text)
    options = step.starter.options if step.starter.name == "srun" else ()
    options = [each for each in options if not is_part(step) or each.name not in OF_PART]
    own = [each for each in options if each.name in (*OF_GPUS, "gres")]
    if any(each.name != "gres" or gpus.in_gres(each.text) for each in own):
        _drop_gpus(draft)
        if job.gpu_types and not job.gpu_type:
            text = f"GPUs of {' and '.join(sorted(job.gpu_types))}: the step asks for its own"
            draft.lose(job.line_of("gres", *OF_GPUS, "gpus-per-task"), text)
    for option in options:
        _srun(draft, _of_type(option, job.gpu_type) if option in own else option)
    if not job.scheduler:
        text = "no directives: add what the submission asks for, as --nodes and --gpus-per-node"
        draft.notes.append(Note(0, text))
    _counts(draft, job, step)


def _directive(draft: LaunchLine, option: Option, job: Directives) -> None:
    name, value, line = option.name, option.text, option.line
    known = name in DIRECT or name == "array"
    if name in OF_IMAGE or (name == "export" and value in ("", "ALL")):
        return
    if reason := REASONS.get((job.scheduler, name)) or REASONS.get(("", name)):
        draft.leave_out(line, reason)
    elif name == "chdir" or (job.scheduler == "pbs" and name in ("system", "ncpus", "select")):
        return  # of the former the script's commands know
    elif name == "signal":
        draft.add(name, value.removeprefix("B:"))
    elif name == "exclusive" and value:
        draft.add("sbatch-arg", f"--exclusive={value}")
    elif known and len(name) > 1:
        _setting(draft, name, option.value if value else None, line)
    elif len(name) == 1:
        draft.add("sbatch-arg", f"-{name}{value}")
    elif name == "property":
        draft.lose(line, f"{value}: a property of nodes")
    elif job.scheduler == "pbs":
        draft.add("sbatch-arg", f"-l{name}={value}".removesuffix("="))
    elif not value and name in OPTIONS["srun"].values:
        draft.lose(line, f"--{name} has no value")
    else:
        whose = "srun-arg" if name.startswith("container-") else "sbatch-arg"
        draft.add(whose, f"--{name}={value}" if value else f"--{name}", line)


def _setting(draft: LaunchLine, name: str, value: Word | None, line: int) -> None:
    switch = name in SETTINGS and SETTINGS[name].kind == "switch"
    if value is None and not switch:
        draft.lose(line, f"--{name} has no value")
    else:
        draft.add(name, None if switch else value)


def _srun(draft: LaunchLine, option: Option) -> None:
    name, value = option.name, option.value
    if name in ("mpi", "cpu-bind") and value is not None:
        draft.add(name, value)
    elif name in DIRECT and name not in COUNTS and name not in OF_OUTPUT:
        _setting(draft, name, value, option.line)
    elif name not in COUNTS and name not in OF_IMAGE and name not in OF_OUTPUT:
        draft.add("srun-arg", f"--{name}={value.text}" if value else f"--{name}", option.line)


def _drop_gpus(draft: LaunchLine) -> None:
    """Drop the job's GPUs where a step asks for its own, perhaps in another way."""
    draft.drop(*OF_GPUS)
    gres = next((value.text for name, value in draft.options if name == "gres" and value), "")
    if gpus.in_gres(gres):
        draft.drop("gres")
        if others := _without_gpus(gres):
            draft.add("gres", ",".join(others))


def _without_gpus(gres: str) -> list[str]:
    return [part for part in gres.split(",") if part.partition(":")[0] != "gpu"]


def _of_type(option: Option, kind: str) -> Option:
    """Return a step's GPUs with the type of the job's, where the step names none."""
    if not kind or option.value is None or option.value.unknown:
        return option
    in_gres = option.name == "gres"
    asked = gpus.in_gres(option.text) if in_gres else gpus.typed(option.text)
    several = len(option.text.split(",")) - len(_without_gpus(option.text)) > 1
    if asked is None or asked[0] or (in_gres and several):
        return option
    gres = [f"gpu:{kind}:{asked[1]}", *_without_gpus(option.text)]
    text = ",".join(gres) if in_gres else f"{kind}:{asked[1]}"
    return replace(option, value=literal(text, option.line))


def _counts(draft: LaunchLine, job: Directives, step: JobStep) -> None:
    if step.agent:
        _agents(draft, job, step.agent, Layer() if is_part(step) else step.starter, is_part(step))
    elif step.remote:
        _nodes(draft, job)
        if not draft.has("nodes") and (job.nodes or 1) > 1:
            draft.add("nodes", job.nodes)
        ranks = 1 if is_part(step) else job.count("ntasks-per-node") or 1
        draft.add("ntasks-per-node", ranks)
        _cpus(draft, job, ranks, Layer())
    elif not step.starter:
        _alone(draft, job)
    elif step.starter.name == "srun":
        _tasks(draft, job, step.starter)
    else:
        _processes(draft, job, step.starter)


def _nodes(draft: LaunchLine, job: Directives) -> None:
    text, line = job.text("nodes"), job.line_of("nodes")
    if text and job.count("nodes") is None:
        draft.add("nodes", text if "<" in text else f"<{text}>")
        draft.open.append(Note(line, f"--nodes={text}: runner takes one number of nodes"))
    elif text or (job.has("nodelist") and (job.nodes or 1) > 1):
        draft.add("nodes", job.nodes or text)


def _tasks(draft: LaunchLine, job: Directives, srun: Layer) -> None:
    """The counts of srun come before those of the directives."""
    own = {name: srun.get(name) for name in COUNTS}
    values: dict[str, Word | str] = {name: own[name] or job.text(name) for name in COUNTS}
    total, given = srun.get("ntasks"), job.text("ntasks")
    if own["ntasks-per-node"]:
        total, values["ntasks"] = None, ""
    elif total and total.text != given and total.number and total.number == job.tasks:
        total, values["ntasks"] = None, given
    elif total and total.text != given:
        values["ntasks-per-node"] = ""
    if not own["nodes"]:
        few = total.number if total else None
        values["nodes"] = str(few) if few and few < (job.nodes or 1) else ""
        if not values["nodes"]:
            _nodes(draft, job)
    for name, value in values.items():
        if value:
            draft.add(name, value)
    if not values["ntasks"] and not values["ntasks-per-node"] and (job.gpus_per_node or 0) > 1:
        draft.add("ntasks-per-node", 1)  # Slurm's default; runner's is one rank for each GPU


def _processes(draft: LaunchLine, job: Directives, mpirun: Layer) -> None:
    _nodes(draft, job)
    total, each = mpirun.get("ntasks"), mpirun.get("ntasks-per-node")
    given = job.text("ntasks-per-node"), job.text("ntasks")
    on_gpus = (job.gpus_per_node or 0) * (job.nodes or 0)
    if each is not None:
        draft.add("ntasks-per-node", each)
        _few_nodes(draft, job, total, each)
    elif total is None or (total.number and total.number == job.tasks and any(given)):
        for name, value in zip(("ntasks-per-node", "ntasks"), given):
            if value:
                draft.add(name, value)
    elif total.number != on_gpus or not on_gpus:
        draft.add("ntasks", total)
        if (total.number or job.nodes or 1) < (job.nodes or 1):
            draft.add("nodes", total.number)
    depth = mpirun.get("cpus-per-task")
    ranks = each.number if each else job.count("ntasks-per-node")
    ranks = ranks or (mpirun.count("ntasks") or 1) // (job.nodes or 1) or 1
    share = (job.count("ncpus") or 0) // ranks  # of a chunk of PBS
    own = job.count("cpus-per-task") or 0
    if mpirun.name == "horovodrun" and own and not any(given):  # those of all its ranks
        own = own // ranks or 1
    if depth is not None or own:
        draft.add("cpus-per-task", depth or own)
    elif share > 1:
        draft.add("cpus-per-task", share)


def _few_nodes(draft: LaunchLine, job: Directives, total: Word | None, each: Word) -> None:
    """Take as many of the job's nodes as mpirun's ranks need."""
    if total and total.number and each.number:
        nodes, odd = -(-total.number // each.number), total.number % each.number
        if nodes < (job.nodes or 1):
            draft.add("nodes", nodes)
        if odd:
            draft.add("ntasks", total)
            draft.drop("ntasks-per-node")
    elif total and total.has(BRANCH):
        draft.add("nodes", literal(f"<{total.text} / {each.text}>", total.line))
        draft.note(total)


def _alone(draft: LaunchLine, job: Directives) -> None:
    """A program that no launcher starts: one rank on the first node."""
    if (job.nodes or 1) > 1:
        text = f"--nodes={job.nodes}: no launcher starts this on the other nodes; it gets one"
        draft.notes.append(Note(job.line_of("nodes"), text))
    draft.add("nodes", 1)
    draft.add("ntasks", 1)
    cpus, tasks = job.count("cpus-per-task") or 1, job.tasks_per_node
    if chunk := job.count("ncpus"):  # PBS's, whatever mpiprocs
        draft.add("cpus-per-task", chunk)
    elif tasks and (job.text("cpus-per-task") or tasks > 1):
        draft.add("cpus-per-task", cpus * tasks)


def _agents(draft: LaunchLine, job: Directives, agent: Layer, starter: Layer, part: bool) -> None:
    """Ranks of torchrun, accelerate and deepspeed; runner starts one agent on each node."""
    if draft.has("gpus-per-task") and job.gpus_per_node:
        draft.drop("gpus-per-task")
        kind = f"{job.gpu_type}:" if job.gpu_type else ""
        draft.add("gpus-per-node", f"{kind}{job.gpus_per_node}")
    name = "torchrun" if agent.name.startswith("torch") else agent.name
    here = not starter and not part and not agent.has("hostfile", "deepspeed-hostfile")
    told = agent.count("nnodes", "num-machines", "num-nodes")
    if here and (job.nodes or 1) > 1 and told != job.nodes:
        draft.add("nodes", 1)
    else:
        _nodes(draft, job)
        if own := starter.get("nodes"):
            draft.add("nodes", own)
        elif not draft.has("nodes") and (job.nodes or 1) > 1:
            draft.add("nodes", job.nodes or 1)
    ranks = ranks_of_agent(agent, job)
    if ranks is None and job.scheduler == "slurm" and not job.wants_gpus:
        ranks = literal("<GPUs of a node>", agent.line)
    if ranks is not None:
        draft.add("ntasks-per-node", ranks)
        if ranks.text.startswith("<"):
            draft.open.append(Note(ranks.line, f"{ranks.text}: the ranks of each node"))
    _cpus(draft, job, ranks.number if ranks else None, starter)
    draft.add("launcher", name)
    if name == "composer":
        draft.exports.append(("NODE_RANK", unknown("$GROUP_RANK", RUN, agent.line)))


def ranks_of_agent(agent: Layer, job: Directives) -> Word | None:
    """Return the ranks that an agent starts on its node, None where one for each GPU is meant."""
    if agent.name == "accelerate":
        return _accelerate(agent, job)
    asked = agent.get("num-gpus", "nproc-per-node")
    if asked is None and agent.name.startswith("torch"):
        asked = literal("1")
    if asked is None or asked.text in ("gpu", "auto"):
        count = job.gpus_per_node
        return literal(str(count)) if count else None
    tasks = job.tasks_per_node
    machines = agent.get("nnodes")
    each_a_rank = asked.number == 1 and machines is not None and machines.number == job.tasks
    return literal(str(tasks)) if each_a_rank and tasks else asked


def _accelerate(agent: Layer, job: Directives) -> Word | None:
    total, nodes = agent.get("num-processes"), job.nodes
    machines = agent.count("num-machines") or nodes
    if total is not None and total.number and machines and total.number % machines == 0:
        return literal(str(total.number // machines), total.line)
    if total is not None:
        return literal(f"<{total.text} / nodes>", total.line)
    return literal(str(job.gpus_per_node)) if job.gpus_per_node else None


def _cpus(draft: LaunchLine, job: Directives, ranks: int | None, starter: Layer) -> None:
    """Share the CPUs of an agent, or of PBS's chunk; without srun it has those of all tasks."""
    own, chunk = job.count("cpus-per-task"), job.count("ncpus") or 0
    total = chunk or (own or (0 if starter else 1)) * (job.tasks_per_node or 0)
    if total and ranks and (chunk or total % ranks == 0):
        if own or total // ranks > 1:
            draft.add("cpus-per-task", total // ranks)
    elif (own or 1) > 1:
        text = f"--cpus-per-task={own}: those of an agent; the launch takes those of a rank"
        draft.lose(job.line_of("cpus-per-task"), text)
