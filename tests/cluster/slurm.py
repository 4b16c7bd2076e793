"""Slurm's configuration as text, and how its daemons are started. Pure.

The same text serves 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import accounting
from .design import (
    CONTROLLER,
    IPV6_NAMES,
    IPV6_ONLY,
    MEMORY,
    NO_HOST_NAMES,
    NO_USER_NAMESPACES,
    PREEMPTION,
    Design,
)
from .flavours.model import Flavour, Nodes

PREEMPTING = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=15 MaxTime=1-00:00:00 State=UP
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF MaxTime=1-00:00:00 State=UP
"""
# What starts a slurmd whose jobs the kernel refuses CLONE_NEWUSER or CLONE_NEWUTS. The answers are
# those of max_user_namespaces=0 (ENOSPC) and of rights that are missing (EPERM).
REFUSING = "python3 /opt/kit/tests/cluster/refuse.py"
REFUSED = {NO_USER_NAMESPACES: f"{REFUSING} 10000000 28 ", NO_HOST_NAMES: f"{REFUSING} 04000000 1 "}
HEALTHY = ("idle", "mixed", "allocated", "completing")


def slurm_conf(design: Design, first_job: int) -> str:
    """slurm.conf for *design*; job ids start at *first_job*."""
    return f"""\
ClusterName={design.flavour.cluster}
SlurmctldHost={CONTROLLER}
SlurmUser=slurm
FirstJobId={first_job}
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true

# Works without cgroups and without the right to raise limits.
ProctrackType=proctrack/{"cgroup" if design.controllers else "linuxproc"}
TaskPlugin=task/{"cgroup" if design.has(MEMORY) else "none"}
JobAcctGatherType=jobacct_gather/none
PropagateResourceLimits=NONE
MpiDefault=none
{_communication(design)}
{_accounting(design.flavour)}
# A job is forgotten MinJobAge seconds after its end; one that is queued again waits cred_expire
# seconds, of which there are 120 by default.
MinJobAge=30
AuthInfo=cred_expire={5 if design.has(PREEMPTION) else 15}
KillWait=15
ReturnToService=2
SlurmdTimeout=30
SlurmctldTimeout=10
EnforcePartLimits=ALL
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=512
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2

SlurmdParameters=config_overrides
GresTypes=gpu
{_nodes_and_partitions(design.flavour)}{PREEMPTING if design.has(PREEMPTION) else ""}"""


def _nodes_and_partitions(flavour: Flavour) -> str:
    lines = [node_line(kind) for kind in flavour.kinds]
    for partition in flavour.partitions:
        kinds = [flavour.kinds[place] for place in partition.kinds]
        names = ",".join(name for kind in kinds for name in kind.names) or "ALL"
        lines.append(f"PartitionName={partition.name} Nodes={names} {partition.options} State=UP")
    return "\n".join(lines) + "\n"


def node_line(kind: Nodes) -> str:
    """The line of slurm.conf for nodes of one kind."""
    words = [
        f"NodeName={','.join(kind.names)}",
        f"CPUs={kind.cpus} CoresPerSocket={kind.cpus // kind.threads_per_core}",
        f"ThreadsPerCore={kind.threads_per_core} RealMemory={kind.memory_mb}",
        *([f"Gres=gpu:{kind.gpu_type}:{kind.gpus}"] if kind.gpus else []),
        f"Feature={','.join(kind.features)} State=UNKNOWN",
    ]
    return " ".join(words)


def _accounting(flavour: Flavour) -> str:
    text = "JobSubmitPlugins=lua\n" if flavour.job_submit else ""
    if flavour.accounts:
        return text + accounting.SLURM_CONF
    return f"{text}# No slurmdbd: sacct does not work, as on some real sites.\n"


def _communication(design: Design) -> str:
    if design.has(IPV6_ONLY):
        return "CommunicationParameters=EnableIPv6,DisableIPv4\n"
    return "CommunicationParameters=EnableIPv6\n" if design.has(IPV6_NAMES) else ""


def gres_conf(flavour: Flavour) -> str:
    """gres.conf: GPUs without hardware.

    NOTE: slurmd 24.11 leaves out GPUs without File= ("Ignoring file-less GPU"), so each has a
    stand-in device, made by start_script().
    """
    lines = [
        f"NodeName={','.join(kind.names)} Name=gpu Type={kind.gpu_type} "
        f"File=/dev/gpu[0-{kind.gpus - 1}]"
        for kind in flavour.kinds
        if kind.gpus
    ]
    return "\n".join(["AutoDetect=off", *lines]) + "\n"


def daemons(flavour: Flavour, name: str) -> tuple[str, ...]:
    """The programs that run on node *name* as long as it is well."""
    if name != CONTROLLER:
        return ("munged", "slurmd")
    return ("munged", "slurmctld", *(accounting.DAEMONS if flavour.accounts else ()))


def start_script(design: Design, name: str) -> str:
    """Shell text that starts the daemons of node *name* and then sleeps for ever."""
    flavour = design.flavour
    kind = flavour.kind_of(name)
    refusing = "".join(text for quirk, text in REFUSED.items() if design.has(quirk))
    with_accounts = name == CONTROLLER and flavour.accounts
    database = accounting.start_script(flavour.cluster, flavour.accounts) if with_accounts else ""
    return f"""\
set -eu
install -d -o munge -g munge -m 755 /run/munge
install -d -o munge -g munge -m 700 /var/log/munge
install -d -o slurm -g slurm -m 755 /var/log/slurm /var/spool/slurmctld
install -d /var/spool/slurmd
for ((number = 0; number < {kind.gpus if kind else 0}; number++)); do
    mknod -m 666 "/dev/gpu$number" c 1 3
done
setpriv --reuid=munge --regid=munge --init-groups munged
{database}{"slurmctld" if name == CONTROLLER else f"{refusing}slurmd"}
exec sleep infinity
"""


def parse_node_states(text: str) -> dict[str, str]:
    """Node -> state from `sinfo -h -N -o '%N %T'`; a node is named once for each partition."""
    return dict(line.split(None, 1) for line in text.splitlines() if line.strip())


def all_healthy(states: dict[str, str], nodes: Sequence[str]) -> bool:
    """Whether every node can take jobs. `idle*` (does not answer) is not healthy."""
    return all(states.get(node, "").strip() in HEALTHY for node in nodes)
