"""NERSC Perlmutter: nodes by constraint, whole nodes, accounts and QOS.

Facts: docs.nersc.gov (architecture, policy). Names of accounts are made up; limits of QOS are
those that a job of two nodes can meet.
"""

from __future__ import annotations

from .model import Flavour, Nodes, Partition

JOB_SUBMIT = """\
function slurm_job_submit(job, partitions, uid)
    local wanted = job.features or ""
    if string.find(wanted, "gpu") == nil and string.find(wanted, "cpu") == nil then
        slurm.log_user("a job names its nodes: --constraint cpu or --constraint gpu")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
"""
ACCOUNTS = (
    "add account m0001,m0001_g",
    "add qos regular MaxWall=2-00:00:00 Flags=DenyOnLimit",
    "add qos interactive MaxWall=04:00:00 MaxTRESPerJob=node=4 Flags=DenyOnLimit",
    "add qos debug MaxWall=00:30:00 MaxTRESPerJob=node=8 Flags=DenyOnLimit",
    "add user ada account=m0001,m0001_g qos=regular,interactive,debug defaultqos=debug",
)


def _gpu_nodes(names: tuple[str, ...], memory: str, memory_mb: int) -> Nodes:
    return Nodes(names, 128, memory_mb, "a100", 4, ("gpu", "a100", memory), threads_per_core=2)


FLAVOUR = Flavour(
    cluster="perlmutter",
    kinds=(
        _gpu_nodes(("nid001000", "nid001001"), "hbm40g", 262144),
        _gpu_nodes(("nid008000", "nid008001"), "hbm80g", 524288),
        Nodes(("nid004000", "nid004001"), 256, 524288, features=("cpu",), threads_per_core=2),
    ),
    partitions=(Partition("batch", "Default=YES OverSubscribe=EXCLUSIVE MaxTime=2-00:00:00"),),
    accounts=ACCOUNTS,
    job_submit=JOB_SUBMIT,
    profile="export NERSC_HOST=perlmutter SCRATCH=/pscratch/sd/a/$USER\n",
    scratch="/pscratch/sd/a",
)
