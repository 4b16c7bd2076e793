"""Chalmers Alvis: one partition of many kinds of GPU, jobs of several nodes take whole nodes.

Facts: www.c3se.chalmers.se (the system, running jobs). Names of nodes and the account are made up.
"""

from __future__ import annotations

from .model import Flavour, Nodes, Partition, numbered

# kind of GPU, GPUs of a node, cores, nodes
KINDS = (
    ("T4", 8, 32, 3),
    ("V100", 2, 16, 2),
    ("V100", 4, 32, 2),
    ("A40", 4, 64, 2),
    ("A100", 4, 64, 2),
    ("A100fat", 4, 64, 2),
)
# NOTE: tres_per_node is "gres/gpu:A100:4", before Slurm 24.05 "gres:gpu:A100:4".
JOB_SUBMIT = """\
local whole = {T4 = {8}, V100 = {2, 4}, A40 = {4}, A100 = {4}, A100fat = {4}}

function slurm_job_submit(job, partitions, uid)
    if job.account == nil then
        slurm.log_user("a job names its project: --account")
        return slurm.ERROR
    end
    local several = job.min_nodes ~= slurm.NO_VAL and job.min_nodes > 1
    local kind, count = string.match(job.tres_per_node or "", "gpu:(%w+):(%d+)")
    if not several or kind == nil or whole[kind] == nil then
        return slurm.SUCCESS
    end
    for _, all in ipairs(whole[kind]) do
        if tonumber(count) == all then
            return slurm.SUCCESS
        end
    end
    slurm.log_user("jobs of several nodes take all GPUs of each: " .. count .. " " .. kind)
    return slurm.ERROR
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
"""


def _nodes(place: int) -> Nodes:
    gpu_type, gpus, cpus, count = KINDS[place]
    return Nodes(numbered(f"alvis{place + 1}-", 1, count), cpus, cpus * 8192, gpu_type, gpus)


FLAVOUR = Flavour(
    cluster="alvis",
    kinds=tuple(_nodes(place) for place in range(len(KINDS))),
    partitions=(Partition("alvis", "Default=YES MaxTime=7-00:00:00"),),
    accounts=("add account NAISS2026-1-1", "add user ada account=NAISS2026-1-1"),
    job_submit=JOB_SUBMIT,
)
