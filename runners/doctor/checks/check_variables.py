"""Inherited variables: those that will hurt, and those that are kept out of a job anyway."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...core.diagnosis import Severity
from ...core.remedy import command
from ...runtimes import LEAKS
from ..finding import OK, WARNING, About, Finding

ABOUT = About("environment")


@dataclass(frozen=True)
class VariableRule:
    """Variables that match `pattern`, and what is to be said when one is set."""

    id: str
    pattern: str
    severity: Severity
    says: str


# The first rule that matches counts.
RULES = (
    VariableRule(
        "cluster-chosen", "SLURM_CONF|SLURM_CLUSTERS", OK, "says which cluster; reaches sbatch"
    ),
    VariableRule(
        "sbatch-variables",
        "SBATCH_.+",
        OK,
        "read as a setting (runner config show --origin), then removed",
    ),
    VariableRule(
        "outer-job",
        "(SLURM|SRUN|PMI)_.+|PMIX_(?!MCA_).+",
        OK,
        "of a surrounding job: kept from sbatch",
    ),
    VariableRule("unset-in-job", "|".join(LEAKS), OK, "unset in the job"),
    VariableRule(
        "library-path", "LD_LIBRARY_PATH", OK, "does not reach the image: the runtime sets its own"
    ),
    VariableRule(
        "controller-overridden",
        "HOROVOD_(CONTROLLER|CPU_OPERATIONS|GPU_OPERATIONS|GPU_ALLREDUCE)",
        WARNING,
        "overrides the plan's controller; left over from another job?",
    ),
    VariableRule(
        "rank-of-other-job",
        "HOROVOD_(RANK|SIZE|LOCAL_.+|CROSS_.+|HOSTNAME|GLOO_RENDEZVOUS_.+)",
        WARNING,
        "gives a rank its number in another job",
    ),
    VariableRule(
        "rank-variables",
        "(WORLD_SIZE|RANK|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK)",
        OK,
        "set for each rank by the job",
    ),
    VariableRule(
        "rendezvous-overridden",
        "(MASTER_ADDR|MASTER_PORT|TF_CONFIG)",
        WARNING,
        "overrides the value of the job: ranks would wait for those of another job",
    ),
    VariableRule(
        "gpus-hidden",
        "CUDA_VISIBLE_DEVICES",
        WARNING,
        "hides GPUs wherever the scheduler does not set it",
    ),
    VariableRule(
        "transport-disabled",
        "NCCL_(P2P|SHM|IB)_DISABLE",
        WARNING,
        "disables a fast NCCL transport, unless it is 0",
    ),
    VariableRule("threads-overridden", "OMP_NUM_THREADS", WARNING, "overrides --cpus-per-task"),
    VariableRule(
        "proxy-used", "(HTTPS?|NO|ALL)_PROXY", OK, "used by pulls and builds; reaches the job too"
    ),
    VariableRule(
        "passed-to-ranks",
        "(HOROVOD|NCCL|UCX|OMPI_MCA|PMIX_MCA|GLOO|FI|MPICH)_.+",
        OK,
        "yours: passed to the ranks; overrides the job's",
    ),
    VariableRule(
        "container-variables",
        "(APPTAINER|SINGULARITY)ENV_.+",
        OK,
        "yours: passed to the ranks; overrides the job's",
    ),
    VariableRule(
        "container-binds",
        "(APPTAINER|SINGULARITY)_BIND(PATH)?",
        OK,
        "is bound into each container, the jobs' too",
    ),
)
HARMLESS = {"NCCL_P2P_DISABLE": "0", "NCCL_SHM_DISABLE": "0", "NCCL_IB_DISABLE": "0"}
# Variables that name interfaces. NCCL's may begin with ^ (all but) or = (exactly), and otherwise
# name a beginning (NCCL's user guide, "NCCL_SOCKET_IFNAME"); Open MPI's also take networks.
INTERFACES = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "HOROVOD_GLOO_IFACE",
    "OMPI_MCA_btl_tcp_if_include",
)


def check(env: Mapping[str, str], interfaces: Collection[str]) -> list[Finding]:
    """Return a finding for each rule that applies, with the variables it concerns.

    `interfaces` are the names of those here.
    """
    groups: dict[VariableRule, list[str]] = {}
    for name in sorted(env):
        rule = _rule(name)
        if rule and HARMLESS.get(name) != env[name]:
            groups.setdefault(rule, []).append(name)
    findings = [_of_rule(rule, groups[rule], env) for rule in RULES if rule in groups]
    findings += absent_interfaces(env, interfaces)
    return findings or [ABOUT.ok("variables", "nothing that concerns a job")]


def _rule(name: str) -> VariableRule | None:
    upper = name.upper() if name.lower().endswith("_proxy") else name
    return next((rule for rule in RULES if re.fullmatch(rule.pattern, upper)), None)


def _of_rule(rule: VariableRule, names: list[str], env: Mapping[str, str]) -> Finding:
    evidence = "\n".join(f"{name}={env[name]}" for name in names)
    fix = command("unset", *names) if rule.severity != OK else ()
    shown = " ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    return ABOUT.finding(shown, rule.severity, rule.says, evidence, fix, rule.id)


def absent_interfaces(
    env: Mapping[str, str], interfaces: Collection[str], where: str = "this machine"
) -> list[Finding]:
    """Return a warning for each variable that names an interface which is not there."""
    findings = []
    for name in INTERFACES:
        prefixes = name == "NCCL_SOCKET_IFNAME" and not env.get(name, "").startswith("=")
        gone = [word for word in _named(env.get(name, "")) if not _is(word, interfaces, prefixes)]
        if gone:
            says = f"names {', '.join(gone)}, which {where} does not have"
            evidence = f"{name}={env[name]}\ninterfaces: {', '.join(sorted(interfaces))}"
            fix = command("unset", name)
            findings.append(ABOUT.warning(name, says, evidence, fix, "interface-absent"))
    return findings


def _named(value: str) -> list[str]:
    """Return the names that a value wants, none for one that only excludes."""
    if value.startswith("^"):
        return []
    words = (word.strip() for word in value.lstrip("=").split(","))
    return [word for word in words if word and "/" not in word]


def _is(word: str, interfaces: Collection[str], prefixes: bool) -> bool:
    return any(item == word or (prefixes and item.startswith(word)) for item in interfaces)
