"""The ranks do not become one world: PMI, PMIx, the rendezvous, the interface."""

from __future__ import annotations

import re
from dataclasses import replace

from ..injob.mpicheck import EXIT_HOST_MPI
from ..injob.rank.gate import EXIT_WORLD_SIZE
from .model import Certainty, Facts, Finding, Mark, Signature
from .words import AGAIN, certain, doctor, likely, logs, who

GDS = Mark("usable plugins for the GDS framework")
PSEC = Mark("usable plugins for the PSEC framework")
NO_PMI = Mark("SLURM's PMI support")
PMIX_ERROR = Mark("PMIX ERROR")
MPI_ENDED = Mark("An error occurred in MPI_Init")
MISMATCH = Mark("world-size mismatch on rank", r"(\d+) tasks .*Horovod sees a world of (\d+)")
# Gloo's words, in Horovod and in torch.distributed
NO_WAY = Mark("pair.cc", r"connect \[(?P<peer>[^\]]+)\](?::\d+)?: (?P<why>[\w ]+)")
HOST_MPI = Mark("runner: host MPI: ")
NO_INTERFACE = re.compile(
    r"no rendezvous: (\S+) has no interface (.+?) with an address; it has: (.+)"
)
NOT_MET = re.compile(r"(?:no world|no rendezvous), (.*\branks? (\d+)(?:@([\w.-]+))?.*)")
NO_PORT = re.compile(r"no free port for the rendezvous on .*")
MISLEADING = re.compile(r"the name of (\S+) leads to .* and not to (\S+) ")
GATE = "the world-size gate compared Horovod's world with the tasks that Slurm started"


def _ended_in_init(facts: Facts) -> bool:
    """Whether the first rank ended at the gate, or was the first of those that did."""
    return facts.record is not None and facts.record.exit_code == EXIT_WORLD_SIZE


def pmix_memory(facts: Facts) -> Finding | None:
    """The image's PMIx cannot share memory with Slurm's: its directories are not in the image."""
    line = facts.line(GDS)
    if not _ended_in_init(facts) or line is None:
        return None
    cause = (
        "the PMIx in the image cannot share memory with Slurm's: the directory of Slurm's PMIx is "
        "not in the container, or the two are of other versions"
    )
    because = "PMIx itself says that nothing was left to exchange data with (GDS)"
    return certain(facts, cause, "--env PMIX_MCA_gds=hash", line, because=because)


def pmix_security(facts: Facts) -> Finding | None:
    """The image's PMIx has no way to prove who it is that Slurm's accepts."""
    line = facts.line(PSEC)
    if not _ended_in_init(facts) or line is None:
        return None
    cause = "the PMIx in the image and Slurm's share no way to prove who they are (munge, native)"
    because = "PMIx itself says that no plugin was left (PSEC)"
    return certain(facts, cause, "--env PMIX_MCA_psec=native", line, because=because)


def controller_changed(facts: Facts) -> Finding | None:
    """A Gloo job in which MPI was started: the trainer has changed Horovod's settings."""
    line = facts.line(MPI_ENDED)
    if not _ended_in_init(facts) or line is None or facts.plan.get("controller") != "gloo":
        return None
    cause = (
        "Horovod started MPI in a job that meets with Gloo: the trainer, or the environment, sets "
        "HOROVOD_CONTROLLER or HOROVOD_CPU_OPERATIONS"
    )
    because = "the plan says Gloo, and the rank ended within MPI_Init"
    return certain(facts, cause, "--controller mpi", line, because=because)


def pmi_missing(facts: Facts) -> Finding | None:
    """The image's MPI found nobody that tells it its rank."""
    kind = facts.plan.get("srun --mpi", "")
    # Where PMIx was there, MPI may have ended for any other reason.
    line = facts.line(NO_PMI) or facts.line(PMIX_ERROR if kind == "pmix" else MPI_ENDED)
    if not _ended_in_init(facts) or line is None:
        return None
    if kind in ("none", ""):
        cause = "the MPI in the image found no PMI: srun ran with --mpi=none"
        return certain(
            facts,
            cause,
            "--mpi pmix, leave out --force",
            line,
            because="the plan, and MPI itself, say so",
        )
    cause = f"the MPI in the image does not speak srun's --mpi={kind}"
    because = "MPI ended in MPI_Init, and says that it found no PMI"
    return certain(
        facts, cause, "--controller gloo, leave out --mpi, leave out --force", line, because=because
    )


def size_mismatch(facts: Facts) -> Finding | None:
    """Each rank believes to be alone, or the world is of another size than was started."""
    line = facts.line(MISMATCH)
    found = re.search(MISMATCH.pattern, line.text) if line else None
    if not _ended_in_init(facts) or line is None or not found:
        return None
    tasks, size = found.groups()
    cause = f"{tasks} tasks were started, and Horovod saw a world of {size}"
    if facts.plan.get("controller") == "gloo":
        cause += ": the trainer changes HOROVOD_* before hvd.init(), or the image has no Gloo"
        return certain(facts, cause, "--controller mpi", line, because=GATE)
    kind = facts.plan.get("srun --mpi", "none")
    cause += f": the MPI in the image does not meet srun's --mpi={kind}"
    return certain(
        facts, cause, "--controller gloo, leave out --mpi, leave out --force", line, because=GATE
    )


def interface(facts: Facts) -> Finding | None:
    """The interface that was asked for is not on the node."""
    found = NO_INTERFACE.search(facts.message)
    if not found:
        return None
    host, wanted, there = found.groups()
    cause = f"{host} has no network interface {wanted}; it has {there}"
    fix = "leave out --network-interfaces"
    if not any(word.startswith("--network-interfaces") for word in facts.job.words):
        fix = f"--network-interfaces {there.split()[0]}"
    return certain(facts, cause, fix, because="the rank looked at its node's interfaces")


def no_way(facts: Facts) -> Finding | None:
    """The ranks met, and Gloo then found no way from one to the other through its interface."""
    line = facts.line(NO_WAY)
    found = re.search(NO_WAY.pattern, line.text) if line else None
    if not _ended_in_init(facts) or line is None or not found:
        return None
    asked = facts.plan.get("interface", "")
    cause = f"no way leads from {who(facts)} to {found['peer']} ({found['why'].strip()})"
    if any(word.startswith("--network-interfaces") for word in facts.job.words):
        cause += f", through the interface that was asked for: {asked}"
        because = "Gloo names the address; without the option each node finds the way by itself"
        return certain(facts, cause, "leave out --network-interfaces", line, because=because)
    because = "Gloo names the address; a firewall between the nodes looks the same"
    return likely(facts, cause, "--controller mpi", line, because=because)


def misleading_name(facts: Facts) -> Finding | None:
    """The node's own name leads elsewhere than the interface, and Gloo goes by the name."""
    found = MISLEADING.search(facts.message)
    if not found:
        return None
    cause = f"the name of {found[1]} leads away from its interface {found[2]}, and Gloo goes by it"
    return certain(facts, cause, "--controller mpi")


def no_port(facts: Facts) -> Finding | None:
    """All ports that this job may take for the rendezvous are taken."""
    found = NO_PORT.search(facts.message)
    if not found:
        return None
    cause = "the ports at which the ranks would meet are taken by others on rank 0's node"
    return certain(
        facts, cause, AGAIN, because="another job has other ports, derived from its number"
    )


def not_met(facts: Facts) -> Finding | None:
    """A rank did not come to the rendezvous; it is the one to look at, not those that waited."""
    found = NOT_MET.search(facts.message)
    if not found or not _ended_in_init(facts):
        return None
    what, rank, host = found[1], int(found[2]), found[3]
    host = host or next(iter(re.findall(r"\bon ([\w.-]+)", what)), "")
    cause, fix = _why_not(what, rank, host, facts)
    finding = likely(facts, cause, fix, because="the other ranks waited for it in hvd.init()")
    return replace(finding, rank=rank, host=host)


def _why_not(what: str, rank: int, host: str, facts: Facts) -> tuple[str, str]:
    if "ended before all had met" in what:
        cause = f"rank {rank}@{host} ended, without an error, before it had called hvd.init()"
        return cause, f"runner logs --rank {rank} {facts.job.id}"
    if "not called hvd.init()" in what:
        cause = f"rank {rank}@{host} started, but did not come to hvd.init() in time"
        return cause, "--env HOROVOD_GLOO_TIMEOUT_SECONDS=600"
    if "did not answer" in what:
        cause = f"rank {rank} on {host} did not answer: no way leads there, or it did not start"
        return cause, doctor(facts, "--nodes 2")
    cause = (
        f"rank {rank} did not come to the rendezvous: it did not start on {host or 'its node'}, or "
        "ended there, without an error, before the others had begun"
    )
    return cause, f"runner logs --rank {rank} {facts.job.id}"


def host_mpi(facts: Facts) -> Finding | None:
    """The host's MPI does not fit into the image."""
    record = facts.record
    if record is None or record.exit_code != EXIT_HOST_MPI:
        return None
    cause = (
        f"the host's MPI libraries do not work in the image: {record.message.partition(': ')[2]}"
    )
    lines = facts.lines(HOST_MPI)[:1]
    because = "the check before the job proper tried them"
    return certain(facts, cause, "leave out --host-mpi", *lines, because=because)


def no_world(facts: Facts) -> Finding | None:
    """Horovod ended the process while it was to meet the others, for a reason not known here."""
    if not _ended_in_init(facts):
        return None
    cause = f"{who(facts)} ended within hvd.init(), where it was to meet the other ranks"
    because = "the last lines of the rank are all that is known"
    lines = facts.log.last[-8:]
    record = facts.first.evidence if facts.first else ()
    return Finding(cause, (*record, *lines), logs(facts), Certainty.UNSURE, because)


SIGNATURES = (
    Signature("pmix-directory-missing", pmix_memory, (GDS,)),
    Signature("pmix-security", pmix_security, (PSEC,)),
    Signature("controller-changed", controller_changed, (MPI_ENDED,)),
    Signature("pmi-missing", pmi_missing, (NO_PMI, PMIX_ERROR, MPI_ENDED)),
    Signature("size-mismatch", size_mismatch, (MISMATCH,)),
    Signature("wrong-interface", interface),
    Signature("wrong-interface", no_way, (NO_WAY,)),
    Signature("misleading-host-name", misleading_name),
    Signature("no-port-for-the-rendezvous", no_port),
    Signature("rank-did-not-come", not_met),
    Signature("host-mpi-mismatch", host_mpi, (HOST_MPI,)),
    Signature("no-world", no_world),
)
