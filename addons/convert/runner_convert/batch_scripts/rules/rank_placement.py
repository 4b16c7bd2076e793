"""Rules about how many ranks are started, and on which nodes and GPUs."""

from __future__ import annotations

from runners.core.text import count

from ..counts import ranks_of_agent, starts
from ..directives import Directives
from ..script import Script
from ..step import JobStep, Layer, runs_python
from .rule import Places, rule

REMOTE = ("ssh", "pdsh", "clush", "pbsdsh", "parallel", "srun", "mpirun", "mpiexec")
# Words of scripts whose ranks want a GPU each; other programs under mpirun may be CPUs' workers.
TRAINS = ("horovod", "hvd", "ddp", "nccl", "distributed", "master_addr", "apptainer", "singularity")


def tasks_per_node(job: Directives, starter: Layer) -> int | None:
    """Return the tasks that a step starts on each node, None where that is not known."""
    if starter.name in ("", "ssh"):
        return 1
    nodes = starter.count("nodes") or job.nodes
    if per_node := starter.count("ntasks-per-node"):
        return per_node
    total = starter.count("ntasks")
    if total and nodes:
        return total // nodes if total % nodes == 0 else None
    counted = starter.get("ntasks", "nodes", "ntasks-per-node")
    return None if counted else job.tasks_per_node


def ranks_per_node(job: Directives, step: JobStep) -> int | None:
    """Return the ranks of each node that a step means to start, None where that is not known."""
    agent = step.agent
    if not agent:
        return tasks_per_node(job, step.starter)
    options = ("num-processes",) if agent.name == "accelerate" else ("nproc-per-node", "num-gpus")
    ranks = ranks_of_agent(agent, job) if agent.get(*options) else None
    return ranks.number if ranks else None


@rule
def ranks_multiplied(script: Script) -> Places:
    for step in script.steps:
        agent, tasks = step.agent, tasks_per_node(script.job, step.starter)
        if agent and tasks and tasks > 1:
            ranks = ranks_per_node(script.job, step)
            each_one = ranks == 1 or (ranks is None and agent.name.startswith("torch"))
            if not each_one and agent.count("nproc-per-node", "num-gpus") != 1:
                many = f" of {ranks} ranks each" if ranks else ""
                total = tasks * (script.job.nodes or 1)
                what = f"{step.starter.name} starts {total} {agent.name} agents{many}"
                yield agent.line, what, "--ntasks-per-node=1: one agent on each node"
        elif not agent and step.launcher:
            yield from _launched_again(script.job, step.starter, step.launcher)


def _launched_again(job: Directives, outer: Layer, inner: Layer) -> Places:
    times, ranks = starts(job, outer), inner.count("ntasks")
    if times is None or times > 1:
        many = f" of {count(ranks, 'rank')} each" if ranks else ""
        what = f"{outer.name} starts {times or 'several'} times {inner.name}{many}"
        right = f"{outer.name} -n 1, or {outer.name} without {inner.name}"
        yield inner.line, f"{what}: as many trainings, on the same GPUs", right


@rule
def rank_count(script: Script) -> Places:
    job, text = script.job, script.text.lower()
    parts = any(word in text for word in ("xpu", "cuda-mps", "ze_affinity", "dask"))
    training = any(word in text for word in TRAINS)
    tasks, nodes = job.count("ntasks"), job.count("nodes")
    if tasks and nodes and tasks < nodes and job.scheduler == "slurm":
        what = f"{nodes} nodes for {count(tasks, 'task')}: Slurm gives the job {tasks}"
        yield job.line_of("ntasks"), what, f"--ntasks-per-node instead, or --ntasks={nodes}"
    for step in script.steps:
        if step.command.loops or not step.layers or parts:
            continue
        yield from _on_nodes(job, step)
        if training or step.agent or step.starter.name in ("", "srun"):
            yield from _on_gpus(job, step)
        yield from _on_tasks(job, step.starter)
        if training or step.starter.name == "srun":
            yield from _without_nodes(job, step)


def _on_nodes(job: Directives, step: JobStep) -> Places:
    agent, nodes = step.agent, step.starter.count("nodes") or job.nodes
    machines = agent.count("nnodes", "num-machines", "num-nodes")
    alone = agent.name in ("", "deepspeed")
    has_machines = alone or agent.get("nnodes", "num-machines", "world-size", "config-file")
    several = (nodes or 1) > 1 and step.starter.count("ntasks") != 1
    if step.starter.name == "srun" and several and not has_machines:
        what = f"{agent.name} is not told of {nodes} nodes: {nodes} trainings, or nodes that wait"
        yield agent.line, what, "--nnodes (accelerate: --num_machines), and where they meet"
    each_a_rank = machines == job.tasks and agent.count("nproc-per-node", "num-gpus") == 1
    fits = machines == nodes or each_a_rank
    if step.starter and machines and nodes and job.scheduler and not fits:
        what = f"{agent.name} is told of {machines} nodes, the job has {nodes}"
        yield agent.line, what, f"{machines} replaced by {nodes}, or by $SLURM_NNODES"


def _on_gpus(job: Directives, step: JobStep) -> Places:
    ranks, gpus, starter = ranks_per_node(job, step), job.gpus_per_node, step.starter
    chosen = "CUDA_VISIBLE_DEVICES" in {**step.env, **step.command.exports}
    shared = chosen or starter.has("gres", "gpus", "gpus-per-node") or step.command.background
    if not ranks or not gpus or not runs_python(step) or shared:
        return  # several steps share the GPUs
    if ranks > gpus:
        what = f"{ranks} ranks on each node share {count(gpus, 'GPU')}"
        yield step.line, what, f"{count(gpus, 'rank')} on each node"
    elif 1 < ranks < gpus and (step.agent or (starter.has("ntasks") and starter.name != "srun")):
        what = f"{ranks} of {gpus} GPUs of each node are used"
        yield step.line, what, f"{gpus} ranks on each node, or --gpus-per-node={ranks}"


def _without_nodes(job: Directives, step: JobStep) -> Places:
    """Yield more tasks than a node has GPUs, where the job does not say on how many nodes."""
    tasks, gpus = job.count("ntasks") or 0, job.gpus_per_node or 0
    counted = job.has("nodes", "ntasks-per-node", "gpus-per-task", "gpus") or job.exclusive
    whole = step.starter and starts(job, step.starter) in (None, tasks)
    if (
        job.scheduler == "slurm"
        and whole
        and runs_python(step)
        and not counted
        and tasks > gpus > 0
    ):
        what = f"{tasks} tasks without --nodes, and {count(gpus, 'GPU')} on each node: ranks share"
        right = f"--nodes={-(-tasks // gpus)} --ntasks-per-node={gpus}"
        yield job.line_of("ntasks"), f"{what} a GPU where Slurm puts them on fewer nodes", right


def _on_tasks(job: Directives, starter: Layer) -> Places:
    total, tasks = starter.count("ntasks"), job.tasks
    tells_tasks = job.has("ntasks", "ntasks-per-node") and job.scheduler == "slurm"
    elsewhere = starter.has("H", "host", "hostfile", "machinefile", "oversubscribe")
    mpirun = starter.name in ("mpirun", "orterun", "mpiexec")
    if mpirun and total and tasks and tells_tasks and total > tasks and not elsewhere:
        what = f"{starter.name} is to start {total} ranks, the job has {count(tasks, 'task')}"
        yield starter.line, f"{what}: not enough slots", f"-np {tasks}, or --ntasks={total}"


@rule
def gpu_index(script: Script) -> Places:
    job, gpus = script.job, script.job.gpus_per_node or 0
    name, some = "CUDA_VISIBLE_DEVICES", gpus and job.scheduler == "slurm" and not job.exclusive
    for value in script.values(name) if some else ():
        numbers = [int(number) for number in (value.known or "").split(",") if number.isdecimal()]
        if max(numbers, default=0) >= gpus:
            what = f"{name}={value.text}: the job has {count(gpus, 'GPU')}, numbered from 0"
            yield value.line, what, "leave it out: Slurm sets it"


@rule
def unequal_nodes(script: Script) -> Places:
    job = script.job
    tasks, nodes = job.count("ntasks") or 0, job.count("nodes") or 1
    even = job.has("ntasks-per-node", "ntasks-per-gpu", "gpus", "gpus-per-task") or job.exclusive
    if 1 < nodes < tasks and not even and job.gpus_per_node:
        what = f"{tasks} tasks on {nodes} nodes need not be {tasks / nodes:g} on each"
        yield job.line_of("ntasks"), what, f"--ntasks-per-node={tasks // nodes}"


@rule
def first_node_only(script: Script) -> Places:
    nodes = script.job.nodes
    remote = script.uses(*REMOTE)
    if not nodes or nodes == 1:
        return
    for starter in (step.starter for step in script.steps if _is_local(step.starter)):
        what = f"horovodrun is not told of {nodes} nodes: it starts all ranks on the first"
        yield starter.line, what, "-H NODE:4,NODE:4, of scontrol show hostnames"
    if remote or any(step.starter for step in script.steps):
        return
    for step in script.steps:
        agent = step.agent
        known = agent.has("hostfile", "deepspeed-hostfile") or step.command.loops or step.problems
        if agent and not known:
            what = f"{agent.name} starts on the first of {nodes} nodes only"
            yield step.line, what, f"srun {agent.name} ...: one on each node"


def _is_local(starter: Layer) -> bool:
    """Whether horovodrun starts its ranks on its own node; only of LSF it reads the nodes."""
    told = starter.has("hostfile", "host-discovery-script", "config-file")
    nodes = {part.partition(":")[0] for part in starter.text("H", "hosts").split(",")}
    return starter.name == "horovodrun" and not told and nodes <= {"", "localhost", "127.0.0.1"}
