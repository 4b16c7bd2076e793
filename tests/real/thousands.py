"""A real Slurm controller with 4,096 made-up nodes, beside the cluster's own on its login node.

Debian's slurm-wlm-emulator 22.05 is built without front-end support, so its one daemon cannot stand
for many nodes; the same slurmctld as everywhere here can be told of nodes in a cloud, which it
takes to be there when a job is to be placed, and never asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .conftest import Done, Login, on_cluster, succeeded

NODES = 4096
PORT = 7817  # 6817 is the cluster's own
# Jobs wait in the second partition and nobody starts them; the first one only tells of starts.
CONFIG = """\
ClusterName=thousands
SlurmctldHost=login
SlurmUser=slurm
SlurmctldPort={port}
StateSaveLocation={state}
SlurmctldPidFile={state}/slurmctld.pid
SlurmctldLogFile={state}/slurmctld.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
EnforcePartLimits=ALL
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=600
NodeName=nid[0001-{nodes}] CPUs=128 CoresPerSocket=64 Sockets=2 RealMemory=512000 Gres=gpu:A100:4 \
State=CLOUD
PartitionName=all Nodes=ALL Default=YES MaxTime=2-00:00:00 State=UP
PartitionName=closed Nodes=ALL MaxTime=2-00:00:00 State=DOWN
"""
START = """\
state={state}
install -d -o slurm $state
cp /etc/slurm/cgroup.conf {folder}
slurmctld -f {folder}/slurm.conf
for ((try = 0; try < 50; try++)); do
    SLURM_CONF={folder}/slurm.conf scontrol ping | grep -q UP && exit
    sleep 0.1
done
cat $state/slurmctld.log >&2
exit 1
"""
STOP = """\
pid=$(cat {state}/slurmctld.pid)
kill $pid
timeout 20 tail --pid=$pid -f /dev/null
rm -r {state}
"""
COUNTED = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "srun")
# Each stands before Slurm's own on the PATH.
COUNTERS = """\
mkdir bin
chmod 755 .  # Slurm's own user reads the configuration
for name in {names}; do
    printf '#!/bin/bash\\necho %s "$*" >> %s/calls\\nexec /usr/bin/%s "$@"\\n' \\
        $name {folder} $name > bin/$name
done
chmod +x bin/*
"""


@dataclass(frozen=True)
class Thousands:
    """The commands of ada's that go to that controller, in her folder; their calls are counted."""

    login: Login

    def runner(self, *words: str) -> Done:
        """Run `runner`."""
        return self.login.runner(*words, env=self.environment)

    def sh(self, script: str) -> str:
        """Return the output of a shell script that must succeed."""
        settings = "; ".join(f"export {name}={value}" for name, value in self.environment.items())
        return self.login.sh(f"{settings}; {script}")

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead there."""
        folder = self.login.folder
        path = f"{folder}/bin:/opt/runner/bin:/usr/local/bin:/usr/bin:/bin"
        return {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": path}

    def calls(self) -> list[str]:
        """Return the commands of Slurm that were run since the last question, by name."""
        text = self.login.sh("touch calls; cat calls; : > calls")
        return [line.split()[0] for line in text.splitlines()]


@contextmanager
def thousands(login: Login) -> Iterator[Thousands]:
    """Start the controller; nothing of it stays."""
    state = f"/run/thousands-{login.folder.rpartition('.')[2]}"
    values = {"folder": login.folder, "state": state, "port": str(PORT), "nodes": str(NODES)}
    login.sh(COUNTERS.format(names=" ".join(COUNTED), folder=login.folder))
    login.write("slurm.conf", CONFIG.format(**values))
    _root(START.format(**values))
    try:
        yield Thousands(login)
    finally:
        _root(STOP.format(**values))


def _root(script: str) -> None:
    succeeded(on_cluster(["bash", "-ec", script], user="root"))
