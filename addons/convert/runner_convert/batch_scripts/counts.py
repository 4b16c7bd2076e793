"""The nodes, ranks and CPUs of a launch line, by directives, launchers and agents."""

from __future__ import annotations

from .directives import Directives
from .draft import LaunchLine
from .step import JobStep, Layer, is_part
from .words import BRANCH, RUN, Word, literal, unknown

COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
# Options of a starter that tell the ranks of a node without a count.
BY_PLACE = ("ntasks-per-gpu", "host", "hosts", "H", "hostfile", "machinefile")


def add(draft: LaunchLine, job: Directives, step: JobStep) -> None:
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
    elif step.launcher:
        _within(draft, job, step)
    elif step.starter.name == "srun":
        _tasks(draft, job, step.starter)
    else:
        _processes(draft, job, step.starter)


def starts(job: Directives, starter: Layer) -> int | None:
    """Return how many processes a starter starts, None where that is not known."""
    if total := starter.count("ntasks"):
        return total
    per_node, nodes = starter.count("ntasks-per-node"), starter.count("nodes") or job.nodes or 1
    counted = per_node or starter.count("nodes")
    return (per_node or job.tasks_per_node or 1) * nodes if counted else job.tasks


def _within(draft: LaunchLine, job: Directives, step: JobStep) -> None:
    """Take the ranks of a launcher that another one starts, once."""
    outer, inner = step.starter, step.launcher
    times, ranks = starts(job, outer), inner.count("ntasks")
    nodes = outer.count("nodes") or job.nodes or 1
    on_gpus = (job.gpus_per_node or 0) * nodes
    if times != 1 and nodes > 1 and ranks != (on_gpus or None):
        text = f"{outer.name} starts {inner.name} in each task, on {nodes} nodes: which ranks are"
        step.problems.append((inner.line, f"{text} one training, only its author knows"))
    elif nodes > 1 or not ranks:
        _processes(draft, job, inner)
    else:
        _nodes(draft, job)
        draft.add("ntasks-per-node", ranks)
        cpus = (outer.count("cpus-per-task") or job.count("cpus-per-task") or 0) * (times or 1)
        if cpus >= ranks:
            draft.add("cpus-per-task", cpus // ranks)
    if times != 1:
        ranks_text = f"{ranks} ranks" if ranks else "its ranks"
        text = f"{inner.name} in each task of {outer.name}: the line starts {ranks_text} once"
        draft.look_at(inner.line, text)


def _nodes(draft: LaunchLine, job: Directives) -> None:
    text, line = job.text("nodes"), job.line_of("nodes")
    if text and job.count("nodes") is None:
        draft.add("nodes", text if "<" in text else f"<{text}>")
        draft.fill_in(line, f"--nodes={text}: runner takes one number of nodes")
    elif text or (job.has("nodelist") and (job.nodes or 1) > 1):
        draft.add("nodes", job.nodes or text)


def _tasks(draft: LaunchLine, job: Directives, srun: Layer) -> None:
    """The counts of srun come before those of the directives."""
    of_srun = {name: srun.get(name) for name in COUNTS}
    values: dict[str, Word | str] = {name: of_srun[name] or job.text(name) for name in COUNTS}
    total, given = srun.get("ntasks"), job.text("ntasks")
    if per_node := of_srun["ntasks-per-node"]:
        if not of_srun["nodes"] and not job.has("nodes"):
            _few_nodes(draft, job, total or job.get("ntasks"), per_node)
        total, values["ntasks"] = None, ""
    elif total and total.text != given and total.number == job.tasks and not of_srun["nodes"]:
        total, values["ntasks"] = None, given
    elif total and total.text != given:
        values["ntasks-per-node"] = ""
    if not of_srun["nodes"]:
        few = total.number if total else None
        values["nodes"] = str(few) if few and few < (job.nodes or 1) else ""
        if not values["nodes"]:
            _nodes(draft, job)
    for name, value in values.items():
        if value:
            draft.add(name, value)
    _one_rank(draft, job, srun)


def _one_rank(draft: LaunchLine, job: Directives, starter: Layer) -> None:
    """Say the scheduler's default, a task a node; runner's is one rank for each GPU."""
    counted = draft.has("ntasks", "ntasks-per-node") or job.has("ntasks-per-gpu")
    counted = counted or starter.has(*BY_PLACE) or "ppr" in starter.text("map-by")
    if job.wants_gpus and job.gpus_per_node != 1 and not counted:
        draft.add("ntasks-per-node", 1)


def _processes(draft: LaunchLine, job: Directives, mpirun: Layer) -> None:
    """The counts of mpirun: so many on each node, else in all, else those of the directives."""
    _nodes(draft, job)
    total, per_node = mpirun.get("ntasks"), mpirun.get("ntasks-per-node")
    parts = (mpirun.get("map-by") or literal("")).split(":")
    per_node = parts[1] if [part.text for part in parts[:3:2]] == ["ppr", "node"] else per_node
    given = job.text("ntasks-per-node"), job.text("ntasks")
    on_gpus = (job.gpus_per_node or 0) * (job.nodes or 0)
    if per_node is not None:
        draft.add("ntasks-per-node", per_node)
        _few_nodes(draft, job, total, per_node)
    elif total is None or (total.number and total.number == job.tasks and any(given)):
        for name, value in zip(("ntasks-per-node", "ntasks"), given):
            if value:
                draft.add(name, value)
        _one_rank(draft, job, mpirun)
    elif total.number != on_gpus or not on_gpus:
        draft.add("ntasks", total)
        if (total.number or job.nodes or 1) < (job.nodes or 1):
            draft.add("nodes", total.number)
    elif not draft.has("nodes") and (job.nodes or 1) > 1:
        draft.add("nodes", job.nodes)
    ranks = per_node.number if per_node else (mpirun.count("ntasks") or 0) // (job.nodes or 1)
    cpus = mpirun.get("cpus-per-task") or _cpus_of_rank(job, ranks or job.tasks_per_node or 1)
    if cpus:
        draft.add("cpus-per-task", cpus)


def _cpus_of_rank(job: Directives, ranks: int) -> int:
    """Return the CPUs of each of a node's `ranks`, 0 where nothing tells them."""
    cpus, in_all = job.count("cpus-per-task") or 0, ranks * (job.nodes or 1)
    if cpus and in_all > (job.tasks or in_all):  # those of a task, which several ranks share
        cpus = cpus * (job.tasks or 1) // in_all or 1
    share = (job.count("ncpus") or 0) // ranks  # of a chunk of PBS
    return cpus or (share if share > 1 else 0)


def _few_nodes(draft: LaunchLine, job: Directives, total: Word | None, per_node: Word) -> None:
    """Take as many nodes as the ranks need, of those that the job has if it says how many."""
    if total and total.number and per_node.number:
        nodes, odd = -(-total.number // per_node.number), total.number % per_node.number
        if nodes < (job.nodes or 1) or (nodes > 1 and not job.has("nodes", "nodelist")):
            draft.add("nodes", nodes)
        if odd:
            draft.add("ntasks", total)
            draft.drop("ntasks-per-node")
    elif total and total is not per_node and total.has(BRANCH):
        draft.add("nodes", literal(f"<{total.text} / {per_node.text}>", total.line))
        draft.note(total)
        return
    factors = ("NODES", per_node.text.strip("${}").split(":")[0])  # of $((N * SLURM_NNODES))
    if total and not total.number and not any(name in total.text for name in factors):
        text = f"{total.text} ranks in all: the line starts {per_node.text} on each of its nodes"
        draft.look_at(total.line, text)


def _alone(draft: LaunchLine, job: Directives) -> None:
    """A program that no launcher starts: one rank on the first node."""
    if (job.nodes or 1) > 1:
        text = f"--nodes={job.nodes}: no launcher starts this on the other nodes; it gets one"
        draft.look_at(job.line_of("nodes"), text)
    draft.add("nodes", 1)
    draft.add("ntasks", 1)
    cpus, tasks = job.count("cpus-per-task") or 1, job.first_tasks
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
    alone = not starter and not part and not agent.has("hostfile", "deepspeed-hostfile")
    machines = agent.count("nnodes", "num-machines", "num-nodes")
    if alone and (job.nodes or 1) > 1 and machines != job.nodes:
        draft.add("nodes", 1)
    else:
        _nodes(draft, job)
        if nodes := starter.get("nodes"):
            draft.add("nodes", nodes)
        elif not draft.has("nodes") and (job.nodes or 1) > 1:
            draft.add("nodes", job.nodes or 1)
    ranks = ranks_of_agent(agent, job)
    if ranks is None and job.scheduler == "slurm" and not job.wants_gpus:
        ranks = literal("<GPUs of a node>", agent.line)
    if ranks is not None:
        draft.add("ntasks-per-node", ranks)
        if ranks.text.startswith("<"):
            draft.fill_in(ranks.line, f"{ranks.text}: the ranks of each node")
    _cpus(draft, job, ranks.number if ranks else None, starter)
    draft.add("launcher", name)
    if name == "composer":
        draft.exports.append(("NODE_RANK", unknown("$GROUP_RANK", RUN, agent.line)))


def ranks_of_agent(agent: Layer, job: Directives) -> Word | None:
    """Return the ranks that an agent starts on its node, None where one for each GPU is meant."""
    if agent.name == "accelerate":
        return _accelerate(agent, job)
    per_node = agent.get("num-gpus", "nproc-per-node")
    slots = agent.text("include").partition(":")[2]  # deepspeed --include localhost:0,1
    if slots.replace(",", "").isdecimal():
        return literal(str(slots.count(",") + 1))
    if per_node is None and agent.name.startswith("torch"):
        per_node = literal("1")
    if per_node is None or per_node.text in ("gpu", "auto"):
        count = job.gpus_per_node
        return literal(str(count)) if count else None
    tasks = job.tasks_per_node
    machines = agent.get("nnodes")
    each_a_rank = per_node.number == 1 and machines is not None and machines.number == job.tasks
    return literal(str(tasks)) if each_a_rank and tasks else per_node


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
    cpus, chunk = job.count("cpus-per-task"), job.count("ncpus") or 0
    tasks = job.tasks_per_node if starter else job.first_tasks
    total = chunk or (cpus or (0 if starter else 1)) * (tasks or 0)
    if total and ranks and (chunk or total % ranks == 0):
        if cpus or total // ranks > 1:
            draft.add("cpus-per-task", total // ranks)
    elif (cpus or 1) > 1:
        text = f"--cpus-per-task={cpus}: those of an agent; the launch takes those of a rank"
        draft.lose(job.line_of("cpus-per-task"), text)
