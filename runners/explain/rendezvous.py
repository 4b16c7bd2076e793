"""The ranks do not become one world: PMI, PMIx, the rendezvous, the interface."""

from __future__ import annotations

from dataclasses import replace

from ..contract import failure_kinds as kinds
from ..contract.enums import Controller, ProcessGroup
from ..contract.world_causes import ON_PURPOSE, why_alone, why_several
from ..core.remedy import Remedy, advice, change
from .explanation import Certainty, Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import certain, finding, host, likely, record_of, who
from .fixes import AGAIN, doctor, logs, logs_of

NO_PMI = LogPattern("SLURM's PMI support")
PMIX_ERROR = LogPattern("PMIX ERROR")
MPI_ENDED = LogPattern("An error occurred in MPI_Init")
# What the log tells better than the plan: a second start of MPI, a PMIx that lacks a plugin
AFTER_END = LogPattern("called after MPI_FINALIZE")
NO_PLUGIN = LogPattern("usable plugins for the")
GAVE_UP = LogPattern("*** An error occurred in MPI_", r"An error occurred in (MPI_\w+)")
# Open MPI's help texts name the component, or the function, that failed.
WHY = (LogPattern("Framework: "), LogPattern("Component: "), LogPattern("--> Returned "))
# Gloo's words, in Horovod and in torch.distributed
NO_WAY = LogPattern("pair.cc", r"connect \[(?P<peer>[^\]]+)\](?::\d+)?: (?P<why>[\w ]+)")
# Fields of a record -> why a rank was missed; the surest first
WHY_NOT = {
    "ended": "ended, without an error, before it had called hvd.init()",
    "late": "started, but did not come to hvd.init() in time",
    "unreached": "did not answer: no way leads there, or it did not start",
    "silent": "did not come to the rendezvous: it did not start, or ended, without an error, "
    "before the others had begun",
}
BY_GLOO = change(controller="gloo", leave_out=["mpi", "force"])
BY_ITSELF = change(leave_out=["network-interfaces"])
BY_PMIX = change(controller="mpi", mpi="pmix", leave_out=["force"])
GATE = "the world-size gate compared the trainer's worlds with the ranks that were started"


def _ended_in_init(facts: Facts) -> bool:
    """Whether the first rank to fail did not come into the world."""
    line = facts.line(AFTER_END) or facts.line(NO_PLUGIN)
    return facts.kind in kinds.NO_WORLD and not line


def controller_changed(facts: Facts) -> Explanation | None:
    """A Gloo job in which MPI was started: the trainer has changed Horovod's settings."""
    line = facts.line(MPI_ENDED)
    if not _ended_in_init(facts) or line is None or facts.plan.controller is not Controller.GLOO:
        return None
    cause = (
        "Horovod started MPI in a job that uses Gloo: the trainer, or the environment, sets "
        "HOROVOD_CONTROLLER or HOROVOD_CPU_OPERATIONS"
    )
    because = "the plan says Gloo, and the rank ended within MPI_Init"
    return certain(facts, cause, change(controller="mpi"), line, because=because)


def pmi_missing(facts: Facts) -> Explanation | None:
    """The image's MPI found nobody that tells it its rank."""
    kind = facts.plan.mpi or ""
    # Where PMIx was there, MPI may have ended for any other reason.
    line = facts.line(NO_PMI) or facts.line(PMIX_ERROR if kind == "pmix" else MPI_ENDED)
    if not _ended_in_init(facts) or line is None:
        return None
    if kind in ("none", ""):
        cause = f"the MPI in the {facts.environment} found no PMI: srun ran with --mpi=none"
        fix = change(mpi="pmix", leave_out=["force"])
        return certain(facts, cause, fix, line, because="the plan, and MPI itself, say so")
    cause = f"the MPI in the {facts.environment} does not support srun --mpi={kind}"
    because = "MPI ended in MPI_Init, and says that it found no PMI"
    return certain(facts, cause, BY_GLOO, line, because=because)


def size_mismatch(facts: Facts) -> Explanation:
    """Each rank believes to be alone, or the world is of another size than was started."""
    tasks, world, framework = (facts.fields[name] for name in ("tasks", "world", "framework"))
    mpi = facts.plan.mpi or "none"
    why = f"the MPI in the {facts.environment} does not work with srun --mpi={mpi}"
    fix = BY_GLOO if framework == ProcessGroup.HOROVOD else BY_PMIX
    if framework == ProcessGroup.TORCH:
        why = "the trainer, or its launcher, says itself how many ranks there are"
        fix = _own_number(facts)
    elif framework == ProcessGroup.TENSORFLOW:
        why = "TF_CONFIG is not set, or is not the one of this job"
        fix = change(tf_config=True)
    elif framework == ProcessGroup.HOROVOD and facts.plan.controller is Controller.GLOO:
        why = "the trainer changes HOROVOD_* before hvd.init(), or Horovod was built without Gloo"
        fix = change(controller="mpi")
    cause = f"{tasks} ranks were started, but {framework} has world size {world}: {why}"
    return certain(facts, cause, fix, because=GATE)


def _own_number(facts: Facts) -> Remedy:
    """Return what makes torch.distributed take the job's number of ranks."""
    command = facts.plan.command
    at = next((place for place, word in enumerate(command) if word.endswith(".py")), None)
    if command[:1] == ("torchrun",) and at is not None:
        return change(launcher="torchrun", trainer=command[at:])
    return advice("init_process_group() without a size or a store: runner sets the variables")


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


def several_worlds(facts: Facts) -> Explanation:
    """Worlds of the right size, and more than one of them."""
    tasks, framework, why = (facts.fields[name] for name in ("tasks", "framework", "why"))
    cause = f"{tasks} tasks were started, but not one {framework} world: {why}"
    because = f"{GATE}: the number of each rank, and its task"
    return certain(facts, cause, advice(why_several(framework)[1]), because=because)


def interface(facts: Facts) -> Explanation:
    usable, wanted = facts.fields["usable"], " or ".join(facts.fields["wanted"])
    names = ", ".join(usable) or "none but loopback"
    cause = f"{host(facts)} has no network interface {wanted} with an address; it has {names}"
    fix = BY_ITSELF
    if usable and not facts.plan.network.interfaces:
        fix = change(network_interfaces=usable[0])
    return certain(facts, cause, fix, because="the rank looked at its node's interfaces")


def no_way(facts: Facts) -> Explanation | None:
    """The ranks met, and Gloo then found no way from one to the other through its interface."""
    seen = facts.match(NO_WAY)
    if not _ended_in_init(facts) or seen is None:
        return None
    line, match = seen
    interface = ",".join(facts.plan.network.interfaces)
    cause = f"there is no route from {who(facts)} to {match['peer']} ({match['why'].strip()})"
    if interface:
        cause += f", through the requested interface: {interface}"
        because = "Gloo names the address; without the option each node finds the route by itself"
        return certain(facts, cause, BY_ITSELF, line, because=because)
    because = "Gloo names the address; a firewall between the nodes looks the same"
    return likely(facts, cause, change(controller="mpi"), line, because=because)


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


def no_world(facts: Facts) -> Explanation | None:
    """Horovod ended the process while it was to meet the others, for a reason not known here."""
    if not _ended_in_init(facts):
        return None
    cause = f"{who(facts)} ended within hvd.init(), during the rendezvous with the other ranks"
    because = "the last lines of the rank are all that is known"
    evidence = (*record_of(facts), *facts.log.last[-8:])
    return finding(cause, evidence, logs(facts), Certainty.UNSURE, because)


def mpi_aborted(facts: Facts) -> Explanation | None:
    """Open MPI ended the job through PMIx, on which Slurm kills each rank: few leave a record."""
    seen, unexplained = facts.match(GAVE_UP), facts.first is None or facts.kind == kinds.IN_INIT
    if not unexplained or seen is None or seen[0].rank is None:
        return None
    line, match = seen
    why = [one for each in WHY for one in facts.lines(each) if one.rank == line.rank]
    cause = f"MPI aborted on rank {line.rank}@{line.host}, in {match[1]}, and ended all ranks"
    fix = logs_of(facts, line.rank)
    because = "Open MPI reports it; what it says before that is the reason"
    said = likely(facts, cause, fix, *why[:4], line, because=because)
    return replace(said, rank=line.rank, host=line.host)


def different_weights(facts: Facts) -> Explanation:
    parameter, why, remedy = (facts.fields[name] for name in ("parameter", "cause", "remedy"))
    because = (
        "the ranks' weights were compared, and differ; why is told by what the trainer made of the "
        "wrappers of Horovod, PyTorch or Keras"
    )
    cause = f"the ranks train different models ({parameter} differs): {why}"
    return likely(facts, cause, advice(f"{remedy}; {ON_PURPOSE}"), because=because)


def misleading_name(facts: Facts) -> Explanation:
    """Gloo listens where the host's name leads."""
    name = f"the host name {host(facts)} does not resolve to its interface"
    cause = f"{name} {facts.fields['interface']}, and Gloo uses the name"
    return certain(facts, cause, change(controller="mpi"))


def port_taken(facts: Facts) -> Explanation:
    cause = (
        f"another user of {host(facts)} listens on port {facts.fields['port']}, which was held for "
        "rank 0's server (MASTER_PORT) or this rank's (TF_CONFIG)"
    )
    because = (
        "the rank saw it in /proc/net/tcp, and ended before it talked to a stranger; the next "
        "start has another port, at random"
    )
    return certain(facts, cause, AGAIN, because=because)


def host_mpi(facts: Facts) -> Explanation:
    cause = f"the host's MPI libraries do not work in the image: {facts.error}"
    because = "the check before the job proper tried them"
    return certain(facts, cause, change(leave_out=["host-mpi"]), because=because)


SIGNATURES = (
    Signature(
        "controller-changed", controller_changed, Precedence.PLAN, (MPI_ENDED, AFTER_END, NO_PLUGIN)
    ),
    Signature("pmi-missing", pmi_missing, Precedence.PLAN, (NO_PMI, PMIX_ERROR, MPI_ENDED)),
    Signature("wrong-interface", no_way, Precedence.PLAN, (NO_WAY,)),
    Signature("size-mismatch", size_mismatch, Precedence.PROCESS_GROUP, kind=kinds.WORLD_SIZE),
    Signature(
        "several-worlds", several_worlds, Precedence.PROCESS_GROUP, kind=kinds.SEVERAL_WORLDS
    ),
    Signature("ranks-alone", no_world_formed, Precedence.PROCESS_GROUP, kind=kinds.NO_WORLD_FORMED),
    Signature("wrong-interface", interface, Precedence.PROCESS_GROUP, kind=kinds.NO_INTERFACE),
    Signature(
        "different-weights",
        different_weights,
        Precedence.PROCESS_GROUP,
        kind=kinds.DIFFERENT_WEIGHTS,
    ),
    Signature(
        "misleading-host-name",
        misleading_name,
        Precedence.PROCESS_GROUP,
        kind=kinds.MISLEADING_NAME,
    ),
    Signature("port-taken", port_taken, Precedence.PROCESS_GROUP, kind=kinds.PORT_TAKEN),
    Signature("host-mpi-mismatch", host_mpi, Precedence.PROCESS_GROUP, kind=kinds.HOST_MPI),
    Signature("rank-did-not-come", not_met, Precedence.PROCESS_GROUP, kind=kinds.NOT_MET),
    Signature("mpi-aborted", mpi_aborted, Precedence.PROCESS_GROUP, (GAVE_UP, *WHY)),
    Signature("no-world", no_world, Precedence.PROCESS_GROUP),
)
