"""Slurm, as far as `site.probe` does not ask already: its configuration, accounting and munge."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ...core.remedy import command, shell_line
from ...core.site import Partition, Site
from ...schedulers.slurm import CONFIG, parse_config
from ..finding import About, Finding
from ..timed import Answer, ask


@dataclass(frozen=True)
class SlurmFacts:
    """What Slurm's own commands say; `config` are the lines of `scontrol show config`.

    `munge` is None where there is no such command.
    """

    ping: Answer
    configuration: Answer
    accounting: Answer
    munge: Answer | None = None
    config: dict[str, str] = field(default_factory=dict)


def probe() -> SlurmFacts:
    """Ask the controller, the accounting and munge, side by side: each may hang."""
    commands = [["scontrol", "ping"], CONFIG]
    commands += [["sacct", "--noheader", "--allocations", "--starttime=now"]]
    commands += [["munge", "--no-input"]] if shutil.which("munge") else []
    with ThreadPoolExecutor() as pool:
        ping, configuration, accounting, *munge = pool.map(ask, commands)
    config = parse_config(configuration.out)
    return SlurmFacts(ping, configuration, accounting, munge[0] if munge else None, config)


ABOUT = About("scheduler")


def absent(site: Site) -> list[Finding]:
    if site.schedulers:
        return [ABOUT.ok("scheduler", ", ".join(site.schedulers), "its commands")]
    says = "no Slurm here: jobs run on this machine"
    return [ABOUT.ok("scheduler", says, "sbatch is not on the PATH")]


def check(site: Site, slurm: SlurmFacts) -> list[Finding]:
    ping = slurm.ping
    if ping.problem or " UP" not in ping.out:
        evidence, fix = ping.problem or ping.shown, command("scontrol", "ping")
        silent = ABOUT.failure("controller", "Slurm's controller does not answer", evidence, fix)
        return [silent, *problems(site)]
    answers = f"Slurm {site.slurm_version or '?'} answers"
    return [
        ABOUT.ok("controller", answers, ping.out.strip().splitlines()[0]),
        _types(site),
        _plugins(slurm.config, slurm.configuration),
        *_partitions(site.partitions),
        _accounting(slurm),
        *_munge(slurm),
        profile(site),
        *problems(site),
    ]


def profile(site: Site) -> Finding:
    if site.profile is None:
        says = "no profile is known for this site: runner sites new writes one"
        return ABOUT.ok("site", says, f"cluster {site.cluster_name or 'without name'}")
    evidence = site.profile.chosen or "no reason is noted"
    return ABOUT.ok("site", site.profile.title or site.profile.name, evidence)


def problems(site: Site) -> list[Finding]:
    """Return a warning for each command that hung or was not understood."""
    return [
        ABOUT.warning("answers", problem, "", shell_line(f"time {problem.partition(':')[0]}"))
        for problem in site.problems
    ]


def _types(site: Site) -> Finding:
    return ABOUT.either(
        any(name.startswith("pmix") for name in site.mpi_types),
        "srun --mpi",
        ", ".join(site.mpi_types),
        "srun offers no pmix: images with Open MPI cannot use MPI under srun",
        f"srun --mpi=list: {', '.join(site.mpi_types) or 'nothing'}\n"
        f"MpiDefault: {site.mpi_default or 'none'}",
        "runner launch --controller gloo ...",
    )


def _plugins(config: dict[str, str], answer: Answer) -> Finding:
    if not config:
        says = answer.problem or "scontrol show config is in words that are not understood"
        return ABOUT.warning("plugins", says, answer.shown, shell_line("scontrol show config"))
    names = ("SelectType", "SelectTypeParameters", "TaskPlugin", "ProctrackType")
    binds = config.get("TaskPlugin", "")
    return ABOUT.either(
        binds not in ("", "task/none"),
        "plugins",
        f"{binds} binds ranks",
        "no TaskPlugin: ranks are not bound to CPUs, and --cpu-bind does nothing",
        "\n".join(f"{name} = {config.get(name) or 'none'}" for name in names),
        "ask the administrators for TaskPlugin=task/affinity,task/cgroup in slurm.conf",
    )


def _partitions(partitions: tuple[Partition, ...]) -> list[Finding]:
    if not partitions:
        return [ABOUT.warning("partitions", "no partition is known", "", command("sinfo"))]
    names = ", ".join(part.name + ("*" if part.default else "") for part in partitions)
    lines = "\n".join(map(_partition, partitions))
    kinds = {f"{kind or 'gpu'} ({part.name})" for part in partitions for kind, _ in part.gpus}
    gpus = [ABOUT.ok("GPUs", ", ".join(sorted(kinds)), "what sinfo counts")] if kinds else []
    return [ABOUT.ok("partitions", names, lines), *gpus]


def _partition(part: Partition) -> str:
    gpus = "".join(f", {count} {kind or 'GPU'}" for kind, count in part.gpus)
    limit = f", limit {part.time_limit}" if part.time_limit else ""
    return f"{part.name}: {part.nodes} nodes, {part.cpus} CPUs{gpus} each{limit}"


def _accounting(slurm: SlurmFacts) -> Finding:
    if not slurm.accounting.problem:
        kind = slurm.config.get("AccountingStorageType") or "of a kind that is not shown"
        return ABOUT.ok("accounting", "sacct answers", kind)
    says = "sacct does not answer; states come from squeue and the runs' folders"
    evidence = f"{slurm.accounting.problem}\n{slurm.accounting.shown}"
    return ABOUT.warning("accounting", says, evidence, "runner status, in place of sacct")


def _munge(slurm: SlurmFacts) -> list[Finding]:
    if slurm.config.get("AuthType") != "auth/munge" or slurm.munge is None:
        return []
    if not slurm.munge.problem:
        return [ABOUT.ok("munge", "gives credentials", "munge --no-input")]
    says = "munge gives no credential: Slurm will reject your requests here"
    fix = "ask the administrators: systemctl status munge"
    return [ABOUT.failure("munge", says, slurm.munge.shown, fix)]
