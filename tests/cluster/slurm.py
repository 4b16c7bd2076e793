"""Slurm's configuration as text, and how its daemons are started. Pure.

The same text serves 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

from collections.abc import Sequence

from .design import CONTROLLER, IPV6_NAMES, IPV6_ONLY, Design

# What each node claims to have (SlurmdParameters=config_overrides); real hardware may be smaller.
CPUS, MEMORY_MB, GPU_TYPE, GPUS = 8, 8192, "A100", 4
HEALTHY = ("idle", "mixed", "allocated", "completing")


def slurm_conf(design: Design, first_job: int) -> str:
    """slurm.conf for *design*; job ids start at *first_job*."""
    return f"""\
ClusterName=kit
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
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
PropagateResourceLimits=NONE
MpiDefault=none
{_communication(design)}
# No slurmdbd: sacct does not work, as on some real sites.
# A job is forgotten MinJobAge seconds after its end.
MinJobAge=60
KillWait=5
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
NodeName={",".join(design.nodes)} CPUs={CPUS} CoresPerSocket={CPUS} \
RealMemory={MEMORY_MB} Gres=gpu:{GPU_TYPE}:{GPUS} Feature=x86_64 State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP
PartitionName=gpu Nodes=ALL MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP
"""


def _communication(design: Design) -> str:
    if design.has(IPV6_ONLY):
        return "CommunicationParameters=EnableIPv6,DisableIPv4\n"
    return "CommunicationParameters=EnableIPv6\n" if design.has(IPV6_NAMES) else ""


def gres_conf() -> str:
    """gres.conf: GPUs without hardware.

    NOTE: slurmd 24.11 leaves out GPUs without File= ("Ignoring file-less GPU"), so each has a
    stand-in device, made by start_script().
    """
    return f"AutoDetect=off\nName=gpu Type={GPU_TYPE} File=/dev/gpu[0-{GPUS - 1}]\n"


def daemon(name: str) -> str:
    """The Slurm daemon of node *name*."""
    return "slurmctld" if name == CONTROLLER else "slurmd"


def start_script(name: str) -> str:
    """Shell text that starts the daemons of node *name* and then sleeps for ever."""
    return f"""\
set -eu
install -d -o munge -g munge -m 755 /run/munge
install -d -o munge -g munge -m 700 /var/log/munge
install -d -o slurm -g slurm -m 755 /var/log/slurm /var/spool/slurmctld
install -d /var/spool/slurmd
for number in $(seq 0 {GPUS - 1}); do mknod -m 666 "/dev/gpu$number" c 1 3; done
setpriv --reuid=munge --regid=munge --init-groups munged
{daemon(name)}
exec sleep infinity
"""


def parse_node_states(text: str) -> dict[str, str]:
    """Node -> state from `sinfo -h -N -o '%N %T'`; a node is named once for each partition."""
    return dict(line.split(None, 1) for line in text.splitlines() if line.strip())


def all_healthy(states: dict[str, str], nodes: Sequence[str]) -> bool:
    """Whether every node can take jobs. `idle*` (does not answer) is not healthy."""
    return all(states.get(node, "").strip() in HEALTHY for node in nodes)
