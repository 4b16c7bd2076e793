"""The trial's outcome -> findings."""

from __future__ import annotations

from ...core.job_record import JobState
from ...core.remedy import Remedy, change, command
from ...explain import read_facts
from ...explain.judge import explain
from .. import job as trial
from ..finding import About, Finding
from ..job import Outcome
from ..question import LINES_SHOWN
from . import cpus, environment, network, scratch, transport, world
from .world import Record

ABOUT = About("job")
DISTRIBUTED = "torch.distributed"  # what the trial calls itself where it ran without Horovod
UNLIMITED = -1
ENOUGH_LOCKED = 64 * 2**30


def check(found: Outcome) -> list[Finding]:
    """Return the findings of a trial, be it waiting, failed or complete."""
    if not found.status.state.ended:
        return [_waiting(found)]
    if found.result is None:
        return [_no_result(found)]
    result, ranks = found.result, found.result["ranks"]
    return [
        _ended(found, result),
        *world.check(ranks, result["started"]),
        *cpus.check(ranks),
        *transport.check(result, transport.parse(found.log)),
        *_nodes(ranks),
    ]


def _waiting(found: Outcome) -> Finding:
    state = f"{found.status.state.value} {found.status.reason}".strip()
    says = f"job {found.job.id} has not ended yet: {state}"
    back = command("runner", "doctor", "--run", found.paths.root)
    fix = (back, command("runner", "cancel", found.job.id))
    return ABOUT.warning("trial", says, f"its folder: {found.paths.root}", fix)


def _no_result(found: Outcome) -> Finding:
    alone = trial.alone(found.paths)
    if found.status.state == JobState.COMPLETED and alone:
        problems = alone[0]["problems"]
        wanted = "torch" if DISTRIBUTED in problems else "Horovod"
        says = f"{len(alone)} ranks ran, but the image has no {wanted} that Python can use"
        reasons = "\n".join(f"{name}: {why}" for name, why in problems.items())
        fix = change(image="horovod_cpu.sif")
        return ABOUT.failure("trial", says, reasons, fix)
    says = f"job {found.job.id} ended: {found.status.state.value} {found.status.reason}".rstrip()
    known = explain(found.paths, found.job, found.status)
    shown = known.evidence[:LINES_SHOWN] or found.log.strip().splitlines()[-LINES_SHOWN:]
    mends = known.fix or _logs(found)
    return ABOUT.failure("trial", says, "\n".join([known.cause, *shown]), mends)


def _ended(found: Outcome, result: Record) -> Finding:
    device = result["ranks"][0]["device"]
    says = f"job {found.job.id} ran: {result['framework']} on {device}"
    controller = result["ranks"][0]["variables"].get("HOROVOD_CONTROLLER")
    says += f", controller {controller}" if controller else ""
    if found.status.state == JobState.COMPLETED:
        return ABOUT.ok("trial", says, f"its folder: {found.paths.root}")
    says += f"; it measured all, then ended: {found.status.state.value}"
    first = read_facts.first(found.paths, found.job)
    evidence = str(first) if first else ""
    return ABOUT.failure("trial", says, evidence, _logs(found))


def _logs(found: Outcome) -> Remedy:
    return command("runner", "logs", found.paths.root)


def _nodes(ranks: list[Record]) -> list[Finding]:
    """Return what is wrong on single nodes, once for each of them."""
    found: list[Finding] = []
    for host, seen in transport.networks(ranks).items():
        where = f" on {host}"
        found += network.dead_interfaces(seen.interfaces, where)
        found += network.dead_ports(seen.ports, where)
        record = next(record for record in ranks if record["host"] == host)
        names = {item.name for item in seen.interfaces}
        found += environment.absent_interfaces(record["variables"], names, host)
        found += _locked_memory(host, record) + _shared_memory(host, record)
    return found


def _shared_memory(host: str, record: Record) -> list[Finding]:
    """NCCL, MPI and data loaders pass data between the processes of a node there."""
    free = record["shared_memory"]
    if free >= scratch.LITTLE["shared memory"]:
        return []
    says = f"only {free // 2**20} MiB free in /dev/shm of {host}"
    fix = f"ls -l /dev/shm on {host}: another job may have left files there"
    return [ABOUT.warning("shared memory", says, "", fix)]


def _locked_memory(host: str, record: Record) -> list[Finding]:
    """RDMA registers memory, which counts against this limit; Slurm passes on the login node's."""
    limit = record["locked_memory"]
    if not record["ports"] or limit == UNLIMITED or limit >= ENOUGH_LOCKED:
        return []
    says = f"only {limit // 1024} KiB of memory may be locked on {host}: RDMA will fail"
    fix = "runner launch --srun-arg=--propagate=NONE ..., or ask for unlimited memlock"
    return [ABOUT.warning("locked memory", says, "ulimit -l", fix)]
