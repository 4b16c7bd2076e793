"""The ranks do not become one world: PMI, PMIx, the rendezvous, the interface."""

from __future__ import annotations

from dataclasses import replace

from ..contract.enums import ProcessGroup
from ..contract.failure_kinds import FailureKind
from ..contract.world_causes import why_alone
from ..core.remedy import Remedy, advice, change
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import certain, host, likely, who
from .fixes import doctor, logs_of

GAVE_UP = LogPattern("*** An error occurred in MPI_", r"An error occurred in (MPI_\w+)")
# Open MPI's help texts name the component, or the function, that failed.
WHY = (LogPattern("Framework: "), LogPattern("Component: "), LogPattern("--> Returned "))
# Fields of a record -> why a rank was missed; the surest first
WHY_NOT = {
    "ended": "ended, without an error, before it had called hvd.init()",
    "late": "started, but did not come to hvd.init() in time",
    "unreached": "did not answer: no way leads there, or it did not start",
    "silent": "did not come to the rendezvous: it did not start, or ended, without an error, "
    "before the others had begun",
}
BY_ITSELF = change(leave_out=["network-interfaces"])
BY_PMIX = change(controller="mpi", mpi="pmix", leave_out=["force"])
GATE = "the world-size gate compared the trainer's worlds with the ranks that were started"


def no_world_formed(facts: Facts) -> Explanation:
    """The trainer ended well, and its ranks were never one world."""
    alone, imports = facts.fields["alone"], facts.fields.get("imports", ())
    cause = (
        f"{who(facts)} ran alone: no process group of the {facts.fields['tasks']} ranks was created"
    )
    if ProcessGroup.MPI in alone:
        cause += ", and MPI's COMM_WORLD has one rank"
        return certain(facts, cause, BY_PMIX, because=GATE)
    why, remedy = why_alone(alone, imports)
    if not (alone or imports):
        because = f"{GATE}; for independent ranks: --no-gate"
        return likely(facts, cause, change(gate=False), because=because)
    return certain(facts, f"{cause}: {why}", advice(remedy), because=GATE)


def interface(facts: Facts) -> Explanation:
    usable, wanted = facts.fields["usable"], " or ".join(facts.fields["wanted"])
    names = ", ".join(usable) or "none but loopback"
    cause = f"{host(facts)} has no network interface {wanted} with an address; it has {names}"
    fix = BY_ITSELF
    if usable and not facts.plan.network.interfaces:
        fix = change(network_interfaces=usable[0])
    return certain(facts, cause, fix, because="the rank looked at its node's interfaces")


def not_met(facts: Facts) -> Explanation | None:
    """A rank did not come to the rendezvous; it is the one to look at, not those that waited."""
    how = next((name for name in WHY_NOT if facts.fields.get(name)), None)
    if how is None:
        return None
    rank, host = facts.fields[how][0]
    cause = f"rank {rank}{'@' if host else ''}{host} {WHY_NOT[how]}"
    because = "the other ranks waited for it in hvd.init()"
    said = likely(facts, cause, _fix(facts, how, rank), because=because)
    return replace(said, rank=rank, host=host)


def _fix(facts: Facts, how: str, rank: int) -> Remedy:
    if how == "late":
        return change(env="HOROVOD_GLOO_TIMEOUT_SECONDS=600")
    return doctor(facts, "--nodes", 2) if how == "unreached" else logs_of(facts, rank)


def mpi_aborted(facts: Facts) -> Explanation | None:
    """Open MPI ended the job through PMIx, on which Slurm kills each rank: few leave a record."""
    seen = facts.match(GAVE_UP)
    unexplained = facts.first is None or facts.kind == FailureKind.IN_INIT
    if not unexplained or seen is None or seen[0].rank is None:
        return None
    line, match = seen
    reasons = [reason for pattern in WHY for reason in facts.lines(pattern)]
    why = [reason for reason in reasons if reason.rank == line.rank]
    cause = f"MPI aborted on rank {line.rank}@{line.host}, in {match[1]}, and ended all ranks"
    fix = logs_of(facts, line.rank)
    because = "Open MPI reports it; what it says before that is the reason"
    said = likely(facts, cause, fix, *why[:4], line, because=because)
    return replace(said, rank=line.rank, host=line.host)


SIGNATURES = (
    Signature(
        "ranks-alone",
        no_world_formed,
        Precedence.PROCESS_GROUP + 20,
        kind=FailureKind.NO_WORLD_FORMED,
    ),
    Signature(
        "wrong-interface", interface, Precedence.PROCESS_GROUP + 30, kind=FailureKind.NO_INTERFACE
    ),
    Signature(
        "rank-did-not-come", not_met, Precedence.PROCESS_GROUP + 80, kind=FailureKind.NOT_MET
    ),
    Signature("mpi-aborted", mpi_aborted, Precedence.PROCESS_GROUP + 90, (GAVE_UP, *WHY)),
)
