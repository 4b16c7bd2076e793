"""The trial, a short real job: how it ended, and what its ranks found on their nodes."""

from __future__ import annotations

from ...core import files
from ...core.job_record import JobState
from ...core.remedy import Remedy, change, command
from ...explain import read_facts
from ...explain.judge import explain
from ..finding import About, Finding
from ..timed import LINES_SHOWN
from ..trial_job import Outcome
from . import check_network, check_variables, scratch, world
from .world import Record

ABOUT = About("job")
DISTRIBUTED = "torch.distributed"  # what the trial calls itself where it ran without Horovod
UNLIMITED = -1
ENOUGH_LOCKED = 64 * 2**30


def check(outcome: Outcome) -> list[Finding]:
    """Return the findings of a trial, be it waiting, failed or complete."""
    if not outcome.status.state.ended:
        return [_waiting(outcome)]
    if outcome.result is None:
        return [_no_result(outcome)]
    result, ranks = outcome.result, outcome.result["ranks"]
    return [
        _ended(outcome, result),
        *world.check(ranks, result["started"]),
        *world.cpus(ranks),
        _allreduce(result["allreduce"], len(ranks)),
        *_nodes(ranks),
    ]


def _waiting(outcome: Outcome) -> Finding:
    state = f"{outcome.status.state.value} {outcome.status.reason}".strip()
    says = f"job {outcome.job.id} has not ended yet: {state}"
    back = command("runner", "doctor", "--run", outcome.paths.root)
    fix = (back, command("runner", "cancel", outcome.job.id))
    return ABOUT.warning("trial", says, f"its folder: {outcome.paths.root}", fix, "trial-not-ended")


def _no_result(outcome: Outcome) -> Finding:
    written = map(files.read_json, sorted(outcome.paths.root.glob("rank-*.json")))
    without_horovod = [record for record in written if record]
    if outcome.status.state == JobState.COMPLETED and without_horovod:
        problems = without_horovod[0]["problems"]
        wanted = "torch" if DISTRIBUTED in problems else "Horovod"
        says = (
            f"{len(without_horovod)} ranks ran, but the image has no {wanted} that Python can use"
        )
        reasons = "\n".join(f"{name}: {why}" for name, why in problems.items())
        fix = change(image="horovod_cpu.sif")
        return ABOUT.failure("trial", says, reasons, fix, "trial-without-framework")
    says = (
        f"job {outcome.job.id} ended: {outcome.status.state.value} {outcome.status.reason}".rstrip()
    )
    if outcome.odd and outcome.status.state == JobState.COMPLETED:
        return ABOUT.failure("trial", says, outcome.odd, _logs(outcome), "trial-result-odd")
    known = explain(outcome.paths, outcome.job, outcome.status)
    shown = known.evidence_lines[:LINES_SHOWN] or outcome.log.strip().splitlines()[-LINES_SHOWN:]
    fix = known.fix or _logs(outcome)
    return ABOUT.failure("trial", says, "\n".join([known.what, *shown]), fix, known.id)


def _ended(outcome: Outcome, result: Record) -> Finding:
    device = result["ranks"][0]["device"]
    says = f"job {outcome.job.id} ran: {result['framework']} on {device}"
    controller = result["ranks"][0]["variables"].get("HOROVOD_CONTROLLER")
    says += f", controller {controller}" if controller else ""
    if outcome.status.state == JobState.COMPLETED:
        return ABOUT.ok("trial", says, f"its folder: {outcome.paths.root}")
    says += f"; it measured all, then ended: {outcome.status.state.value}"
    first = read_facts.first(outcome.paths, outcome.job)
    evidence = str(first) if first else ""
    return ABOUT.failure("trial", says, evidence, _logs(outcome), "trial-ended-badly")


def _allreduce(allreduce: Record, ranks: int) -> Finding:
    size = f"{allreduce['bytes'] // 2**20} MiB"
    if not allreduce["right"]:
        fix = "runner verify IMAGE, and another --controller"
        return ABOUT.failure("allreduce", "sums of the ranks are wrong", f"of {size}", fix)
    if ranks == 1:
        return ABOUT.ok("allreduce", "one rank sends nothing")
    says = f"{allreduce['bus'] / 10**6:.0f} MB/s bus bandwidth at {size}"
    evidence = f"median {allreduce['seconds']:.3f} s; bus = size / time * 2 (n - 1) / n"
    return ABOUT.ok("allreduce", says, evidence)


def _logs(outcome: Outcome) -> Remedy:
    return command("runner", "logs", outcome.paths.root)


def _nodes(ranks: list[Record]) -> list[Finding]:
    """Return what is wrong on single nodes, once for each of them."""
    findings: list[Finding] = []
    for host, seen in check_network.of_nodes(ranks).items():
        where = f" on {host}"
        findings += check_network.dead_interfaces(seen.interfaces, where)
        findings += check_network.dead_ports(seen.ports, where)
        record = next(record for record in ranks if record["host"] == host)
        names = {item.name for item in seen.interfaces}
        findings += check_variables.absent_interfaces(record["variables"], names, host)
        findings += _locked_memory(host, record) + _shared_memory(host, record)
    return findings


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
