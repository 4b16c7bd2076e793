"""Rules about ranks: how many are started, where, and whether they know their number."""

from __future__ import annotations

import ast
from pathlib import Path

from ..directives import Job
from ..resources import ranks_of_agent
from ..script import Script
from ..steps import Layer, Step
from .rule import Places, rule

# Words of scripts whose ranks want a GPU each; other programs under mpirun may be CPUs' workers.
TRAINS = ("horovod", "hvd", "ddp", "nccl", "distributed", "master_addr", "apptainer", "singularity")


def tasks_per_node(job: Job, starter: Layer | None) -> int | None:
    """Return the tasks that a step starts on each node, None where that is not known."""
    if starter is None:
        return 1
    nodes = starter.count("nodes") or job.nodes
    if each := starter.count("ntasks-per-node", "ppn", "npernode"):
        return each
    total = starter.count("ntasks", "np", "n", "num-proc")
    if total and nodes:
        return total // nodes if total % nodes == 0 else None
    if starter.get("ntasks", "np", "n", "num-proc", "nodes", "ntasks-per-node", "ppn"):
        return None
    return job.tasks_per_node


def ranks_per_node(job: Job, step: Step) -> int | None:
    """Return the ranks of each node that a step means to start, None where that is not known."""
    agent = step.layer("agent")
    if agent is None:
        return tasks_per_node(job, step.layer("starter"))
    if agent.name == "accelerate" and not agent.get("num-processes"):
        return None
    if agent.name != "accelerate" and not agent.get("nproc-per-node", "num-gpus"):
        return None
    ranks = ranks_of_agent(agent, job)
    return ranks.number if ranks else None


@rule("ranks-multiplied")
def ranks_multiplied(script: Script) -> Places:
    for step in script.steps:
        starters = [each for each in step.layers if each.kind == "starter"]
        agent, tasks = step.layer("agent"), tasks_per_node(script.job, step.layer("starter"))
        if agent is not None and starters and tasks and tasks > 1:
            ranks = ranks_per_node(script.job, step)
            if ranks == 1 or (ranks is None and agent.name.startswith("torch")):
                continue
            if _one_rank_each(agent):
                continue
            nodes = script.job.nodes or 1
            many = f" of {ranks} ranks each" if ranks else ""
            what = f"{starters[0].name} starts {tasks * nodes} {agent.name} agents{many}"
            yield agent.line, what, "--ntasks-per-node=1: one agent on each node"
        elif len(starters) > 1 and (_tasks(starters[0]) or script.job.tasks or 1) > 1:
            inner = starters[1].name
            what = f"each task of {starters[0].name} starts {inner} with all ranks once more"
            yield starters[1].line, what, f"leave out {inner}: the tasks are the ranks"


def _tasks(starter: Layer) -> int | None:
    return starter.count("ntasks", "np", "n", "num-proc")


def _one_rank_each(agent: Layer) -> bool:
    asked = agent.get("nproc-per-node", "num-gpus")
    return asked is not None and asked.number == 1


@rule("rank-count")
def rank_count(script: Script) -> Places:
    job, text = script.job, script.text.lower()
    parts = any(word in text for word in ("xpu", "cuda-mps", "ze_affinity", "dask"))
    training = any(word in text for word in TRAINS)
    for step in script.steps:
        if step.command.loops or not step.layers or parts:
            continue
        yield from _on_nodes(job, step)
        starter = step.layer("starter")
        if training or step.layer("agent") or starter is None or starter.name == "srun":
            yield from _on_gpus(job, step)
        yield from _on_tasks(job, step)


def _on_nodes(job: Job, step: Step) -> Places:
    agent, starter = step.layer("agent"), step.layer("starter")
    machines = agent.count("nnodes", "num-machines", "num-nodes") if agent else None
    nodes = (starter.count("nodes") if starter else None) or job.nodes
    if agent and starter and machines and nodes and job.scheduler and machines != nodes:
        if machines == job.tasks and _one_rank_each(agent):
            return
        what = f"{agent.name} is told of {machines} nodes, the job has {nodes}"
        yield agent.line, what, f"{machines} replaced by {nodes}, or by $SLURM_NNODES"


def _on_gpus(job: Job, step: Step) -> Places:
    ranks, there, starter = ranks_per_node(job, step), job.gpus_per_node, step.layer("starter")
    if not ranks or not there or ranks == there or not step.python:
        return
    counted = step.layer("agent") is not None or _told(step)
    chosen = "CUDA_VISIBLE_DEVICES" in {**step.env, **step.command.exports}
    own = starter is not None and starter.options.has("gres", "gpus", "gpus-per-node")
    if chosen or own or step.command.background:
        return  # several steps share the GPUs
    if ranks > there:
        what = f"{ranks} ranks on each node share {there} GPUs"
        yield step.line, what, f"{there} ranks on each node"
    elif counted and ranks > 1:
        what = f"{ranks} of {there} GPUs of each node are used"
        yield step.line, what, f"{there} ranks on each node, or --gpus-per-node={ranks}"


def _told(step: Step) -> bool:
    """Whether mpirun or horovodrun is told the number of ranks."""
    starter = step.layer("starter")
    return starter is not None and starter.get("np", "num-proc") is not None


def _on_tasks(job: Job, step: Step) -> Places:
    starter = step.layer("starter")
    if starter is None or starter.name not in ("mpirun", "orterun", "mpiexec"):
        return
    total, tasks = starter.count("np", "n"), job.tasks
    asked = job.find("ntasks", "ntasks-per-node")
    elsewhere = starter.options.has("H", "host", "hostfile", "machinefile", "oversubscribe")
    if total and tasks and asked and total > tasks and not elsewhere and job.scheduler == "slurm":
        what = f"{starter.name} is to start {total} ranks, the job has {tasks} tasks"
        yield starter.line, f"{what}: not enough slots", f"-np {tasks}, or --ntasks={total}"


@rule("unequal-nodes")
def unequal_nodes(script: Script) -> Places:
    job = script.job
    tasks, nodes = job.count("ntasks"), job.count("nodes")
    even = job.find("ntasks-per-node", "exclusive", "ntasks-per-gpu")
    if not tasks or not nodes or nodes == 1 or even or job.exclusive or tasks <= nodes:
        return
    if job.gpus_per_node and not job.get("gpus") and not job.get("gpus-per-task"):
        what = f"{tasks} tasks on {nodes} nodes need not be {tasks / nodes:g} on each"
        yield job.line("ntasks"), what, f"--ntasks-per-node={tasks // nodes}"


@rule("first-node-only")
def first_node_only(script: Script) -> Places:
    nodes = script.job.nodes
    remote = script.uses("ssh", "pdsh", "clush", "pbsdsh", "parallel")
    started = any(step.layer("starter") for step in script.steps)
    if not nodes or nodes == 1 or remote or started or script.uses("srun", "mpirun", "mpiexec"):
        return
    for step in script.steps:
        agent = step.layer("agent")
        if agent is None or agent.options.has("hostfile", "deepspeed-hostfile"):
            continue
        if not step.command.loops and not step.problems:
            what = f"{agent.name} starts on the first of {nodes} nodes only"
            yield step.line, what, f"srun {agent.name} ...: one on each node"


@rule("node-rank")
def node_rank(script: Script) -> Places:
    for step in script.steps:
        agent = step.layer("agent")
        rank = agent.get("node-rank", "machine-rank") if agent is not None else None
        many = (script.job.nodes or 1) > 1 and step.layer("starter") is not None
        meets = agent is not None and agent.options.has("rdzv-backend", "rdzv-endpoint")
        if meets or step.command.loops:
            continue  # a rendezvous numbers the nodes itself
        if rank is not None and rank.known == "0" and many:
            what = "the node's rank is 0 on each node: the script's shell expands it"
            yield rank.line, what, "srun bash -c '... $SLURM_NODEID ...', in single quotes"


@rule("no-rank-variables")
def no_rank_variables(script: Script) -> Places:
    for step in script.steps:
        starter, file = step.layer("starter"), _trainer(step)
        if starter is None or starter.name == "horovodrun" or step.layer("agent") or not file:
            continue
        if "RANK" in step.env or "RANK" in step.command.exports:
            continue
        needs = _needs_rank(Path(file))
        pals = script.job.scheduler == "pbs" and starter.name == "mpiexec" and starter.get("ppn")
        ddp = "ddp" in file.rpartition("/")[2].lower()
        if needs or (needs is None and pals and ddp):
            name = "PALS" if pals else starter.name
            what = f"{name} sets no RANK, WORLD_SIZE or MASTER_ADDR: DDP by env:// finds no world"
            unless = "" if needs else f", unless {file} sets them itself"
            yield step.line, what + unless, "RANK=$PMI_RANK and so on for each rank, or torchrun"


def _trainer(step: Step) -> str:
    return next((w.text for w in step.program if w.text.endswith(".py") and not w.unknown), "")


def _needs_rank(path: Path) -> bool | None:
    """Whether a trainer calls init_process_group and nothing in it sets a rank; None if unread."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    begins = [call for call in calls if _called(call) == "init_process_group"]
    given = any(
        keyword.arg in ("rank", "init_method", "store") for c in begins for keyword in c.keywords
    )
    others = ("PROCID", "PMI_RANK", "PALS_RANKID", "COMM_WORLD_RANK", "mpi4py", "horovod")
    return (
        bool(begins)
        and not given
        and not any(word in text for word in (*others, 'environ["RANK"]'))
    )


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


RULES = (
    ranks_multiplied,
    rank_count,
    unequal_nodes,
    first_node_only,
    node_rank,
    no_rank_variables,
)
