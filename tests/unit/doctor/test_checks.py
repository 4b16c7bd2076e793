"""The doctor's findings about runtime and scheduler: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from containers import build_modes
from runners.core.model import RuntimeName, SchedulerName
from runners.core.site import Partition, Site
from runners.doctor.checks import check_runtime, check_slurm
from runners.doctor.checks.check_runtime import ContainerFacts, ContainerStart
from runners.doctor.checks.check_slurm import SlurmFacts
from runners.doctor.finding import FAILURE, OK, WARNING, About, Finding, counts, failed, grouped
from runners.doctor.timed import Answer

SITE = Site((SchedulerName.SLURM,), ("none", "pmi2", "pmix"), slurm_version="24.11.5")


def states(findings: list[Finding]) -> dict[str, str]:
    """Return the state of each finding by name."""
    return {finding.name: finding.severity for finding in findings}


def named(findings: list[Finding], name: str) -> Finding:
    """Return the one of this name."""
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def test_findings_are_grouped_the_worst_last() -> None:
    bad, good = About("a").failure("1", ""), About("a").ok("2", "")
    other = About("b").warning("3", "")
    assert grouped([bad, other, good]) == [("a", [good, bad]), ("b", [other])]
    assert failed([good, bad])
    assert not failed([good, other])
    assert counts([bad, other, good]) == {OK: 1, WARNING: 1, FAILURE: 1}


# Slurm

PING = Answer("scontrol ping", "Slurmctld(primary) at login is UP\n")
WELL = {
    "AuthType": "auth/munge",
    "TaskPlugin": "task/affinity,task/cgroup",
    "AccountingStorageType": "accounting_storage/slurmdbd",
}
FINE = SlurmFacts(PING, Answer("scontrol show config"), Answer("sacct"), Answer("munge"), WELL)
CPU = Partition("cpu", 4, 32, gpus=(("A100", 4),), time_limit="1-00:00:00", default=True)


def test_a_good_slurm_is_all_ok() -> None:
    found = check_slurm.check(replace(SITE, partitions=(CPU,)), FINE)
    assert set(states(found).values()) == {OK}
    assert named(found, "partitions").what == "cpu*"
    assert "4 nodes, 32 CPUs, 4 A100 each" in named(found, "partitions").evidence


def dumb(command: str) -> Answer:
    """Return what is left of a program that hangs."""
    return Answer(command, problem=f"{command.split()[0]} did not answer within 10 s")


@pytest.mark.parametrize(
    ("site", "facts", "name", "state", "words"),
    [
        (SITE, replace(FINE, ping=dumb("scontrol ping")), "controller", FAILURE, "does not answer"),
        (replace(SITE, mpi_types=("none",)), FINE, "srun --mpi", WARNING, "no pmix"),
        (SITE, replace(FINE, config={**WELL, "TaskPlugin": ""}), "plugins", WARNING, "not bound"),
        (SITE, replace(FINE, config={}), "plugins", WARNING, "not understood"),
        (SITE, FINE, "partitions", WARNING, "no partition"),
        (SITE, replace(FINE, accounting=dumb("sacct")), "accounting", WARNING, "squeue"),
        (SITE, replace(FINE, munge=dumb("munge")), "munge", FAILURE, "reject"),
        (
            replace(SITE, problems=("sinfo: no answer within 10 s",)),
            FINE,
            "answers",
            WARNING,
            "10 s",
        ),
    ],
)
def test_what_is_wrong_with_slurm(
    site: Site, facts: SlurmFacts, name: str, state: str, words: str
) -> None:
    found = named(check_slurm.check(site, facts), name)
    assert found.severity == state
    assert words in found.what
    assert found.remedies


def test_a_machine_without_slurm_is_no_fault() -> None:
    assert check_slurm.absent(Site(()))[0].severity == OK
    assert check_slurm.absent(Site((SchedulerName.PBS,)))[0].what == "pbs"


# Containers

MODE = build_modes.Mode("fakeroot with subordinate ids", ("--fakeroot",), "uid map: 0 1000 1", True)
TOOLS = {"squashfuse": "/usr/bin/squashfuse_ll", "newuidmap": "/usr/bin/newuidmap"}
HERE = ContainerFacts(
    command="/usr/bin/apptainer",
    version=Answer("apptainer --version", "apptainer version 1.4.5\n"),
    setuid=False,
    tools=TOOLS,
    fuse=True,
    namespace=Answer("unshare --user --map-root-user true"),
    settings={"user.max_user_namespaces": "0"},
    subordinate=("/etc/subuid: ada:1:2", "/etc/subgid: ada:1:2"),
    remedy="sudo sysctl -w user.max_user_namespaces=15000",
    builds=((MODE, "--fakeroot: works"), (None, "no flag: FATAL: no")),
    runs=(ContainerStart("running a SIF file", Answer("apptainer exec tiny.sif /bin/true")),),
)
NO_USERNS = Answer("unshare ...", err="unshare: Operation not permitted\n", problem="exit code 1")
FATAL = "FATAL:   container creation failed: mount source /nowhere doesn't exist\n"


def told(found: Finding) -> str:
    """What mends it, as text."""
    return "\n".join(map(str, found.remedies))


def test_a_good_runtime_is_all_ok() -> None:
    assert set(states(check_runtime.check(HERE)).values()) == {OK}


@pytest.mark.parametrize(
    ("facts", "name", "state", "fix"),
    [
        (replace(HERE, version=dumb("apptainer --version")), "runtime", FAILURE, "module load"),
        (replace(HERE, namespace=NO_USERNS), "user namespaces", FAILURE, "max_user_namespaces"),
        (replace(HERE, namespace=NO_USERNS, setuid=True), "user namespaces", WARNING, "sysctl"),
        (replace(HERE, subordinate=()), "subordinate ids", WARNING, "sudo"),
        (replace(HERE, tools={**TOOLS, "squashfuse": ""}), "image mounts", WARNING, "squashfuse"),
        (replace(HERE, fuse=False), "image mounts", WARNING, "squashfuse"),
        (replace(HERE, builds=((None, "FATAL"),)), "building", WARNING, "sudo sysctl"),
    ],
)
def test_what_is_wrong_with_the_runtime(
    facts: ContainerFacts, name: str, state: str, fix: str
) -> None:
    found = named(check_runtime.check(facts), name)
    assert found.severity == state
    assert fix in told(found)


@pytest.mark.parametrize(
    ("what", "answer", "state", "fix"),
    [
        (
            "running a SIF file",
            Answer("", err=FATAL, problem="exit code 255"),
            FAILURE,
            "unset APPTAINER_BIND",
        ),
        ("making a SIF file", Answer("", problem="exit code 1"), WARNING, "squashfs-tools"),
        ("running the image", Answer("", problem="did not answer"), FAILURE, "--sandbox"),
        (
            "running a SIF file",
            Answer("", err="INFO:    Converting SIF file to temporary sandbox...\n"),
            WARNING,
            "--sandbox",
        ),
        ("running a SIF file", Answer(""), OK, ""),
    ],
)
def test_runs(what: str, answer: Answer, state: str, fix: str) -> None:
    found = check_runtime.run(ContainerStart(what, answer))
    assert found.severity == state
    assert fix in told(found)


@pytest.mark.parametrize(
    ("site", "state"),
    [
        (Site(()), FAILURE),
        (Site((SchedulerName.SLURM,)), WARNING),
        (Site((SchedulerName.SLURM,), runtimes=(RuntimeName.SHIFTER,)), OK),
    ],
)
def test_no_apptainer_here(site: Site, state: str) -> None:
    assert check_runtime.absent(site)[0].severity == state
