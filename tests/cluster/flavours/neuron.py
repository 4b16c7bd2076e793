"""KISTI Neuron: a partition for each kind of node, and rules that its submit plugin enforces.

The facts of partitions, limits and rules are the guide's; names of nodes are made up.
"""

from __future__ import annotations

from .model import Flavour, Nodes, Partition, numbered

# partition, cores, kind of GPU, GPUs; the first is the default one
KINDS = (
    ("amd_a100nv_8", 64, "A100", 8),
    ("eme_h200nv_8", 96, "H200", 8),
    ("cas_v100nv_8", 32, "V100", 8),
    ("cas_v100nv_4", 40, "V100", 4),
    ("cas_v100_4", 40, "V100", 4),
    ("cas_v100_2", 32, "V100", 2),
    ("gh200_1", 72, "GH200", 1),
    # Four A100 in instances; of which kind, and so how many, is nowhere told.
    ("mig_amd_a100_4", 64, "1g.10gb", 28),
)
NODES_EACH = 2
JOB_SUBMIT = """\
function slurm_job_submit(job, partitions, uid)
    if job.comment == nil or job.comment == "" then
        slurm.log_user("--comment=<application> is mandatory, such as --comment=pytorch")
        return slurm.ERROR
    end
    if job.pn_min_memory ~= slurm.NO_VAL64 then
        slurm.log_user("--mem is not allowed: memory follows from the CPUs")
        return slurm.ERROR
    end
    if string.sub(job.work_dir or "", 1, 9) ~= "/scratch/" then
        slurm.log_user("jobs are submitted from /scratch only, not from " .. job.work_dir)
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
"""


def _nodes(place: int) -> Nodes:
    name, cpus, gpu_type, gpus = KINDS[place]
    features = ("aarch64",) if name == "gh200_1" else ("x86_64",)
    names = numbered("gpu", place * NODES_EACH + 1, NODES_EACH)
    return Nodes(names, cpus, cpus * 4096, gpu_type, gpus, features)


def _partition(place: int) -> Partition:
    default = "Default=YES " if place == 0 else ""
    return Partition(KINDS[place][0], f"{default}MaxTime=2-00:00:00", (place,))


FLAVOUR = Flavour(
    cluster="neuron",
    kinds=tuple(_nodes(place) for place in range(len(KINDS))),
    partitions=tuple(_partition(place) for place in range(len(KINDS))),
    job_submit=JOB_SUBMIT,
    modules=("singularity/3.11.0",),
)
