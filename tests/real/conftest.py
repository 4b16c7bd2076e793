"""The real thing: commands as user ada on the cluster's login node, and the built image."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.cluster import nodes
from tests.cluster.design import CONTROLLER
from tests.cluster.state import UIDS, USER, State

from . import beside, cpu_time, lanes

CHECKOUT = Path(__file__).parents[2]
IMAGE = "/scratch/ada/images/horovod_cpu.sif"
# The same, for modules with the mark `unpacked`: they test what happens in a job.
UNPACKED = "/scratch/ada/unpacked"
# The nodes claim more CPUs than this machine has; more threads than real ones only wait.
FEW_THREADS = {"RUNNER_CPUS_PER_TASK": "1"}
ONE_BY_ONE = (
    *("test_explain_frameworks.py", "test_hangs.py", "test_keras.py", "test_launch.py"),
    *("test_one_model.py", "test_tutorials.py", "test_worlds.py"),
)
TEARDOWNS: list[pytest.TestReport] = []  # of each test, for the table of CPU seconds
Done = subprocess.CompletedProcess[str]
# A test that fails may leave a job that keeps the nodes from all that come after it.
LEAVE = """
squeue --me --noheader --format='%A %Z' | awk -v "folder=$1" '$2 == folder {print $1}' |
  xargs --no-run-if-empty scancel
rm -rf "$1"
"""


def ended(done: Done, code: int, *errors: str) -> Done:
    """Return a command that must have ended with this exit code and these words on stderr."""
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert not [words for words in errors if words not in done.stderr], output
    return done


def succeeded(done: Done) -> Done:
    """Return a command that must have ended well."""
    return ended(done, 0)


def on_cluster(
    argv: list[str], node: str = CONTROLLER, user: str = USER, timeout: float = 300
) -> Done:
    """Run a command on a node; stdout and stderr come apart.

    As `python3 -m tests.cluster exec`, whose imports would cost more than most of the thousands of
    commands.
    """
    entering = nodes.enter_argv(State.locate(), node, argv, user)
    return subprocess.run(entering, capture_output=True, text=True, timeout=timeout, check=False)


def new_folder(user: str = USER, name: str = "test") -> str:
    """Make an empty folder of a user's on the shared scratch; return its path on the nodes."""
    made = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=State.locate().scratch / user))
    os.chown(made, UIDS[user], UIDS[user])
    return f"/scratch/{user}/{made.name}"


def write(path: str, text: str, user: str = USER) -> str:
    """Write a user's file in a shared folder of the nodes, from this machine; return its path."""
    file = State.locate().root / path.removeprefix("/")
    known = file.exists()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(f"{text}\n")
    if not known:
        os.chown(file, UIDS[user], UIDS[user])
    return path


@dataclass(frozen=True)
class Login:
    """A folder of ada's on the shared scratch, in which commands run."""

    folder: str
    image: str = IMAGE

    def run(self, *argv: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> Done:
        """Run a command in the folder."""
        settings = [f"{name}={value}" for name, value in {**FEW_THREADS, **(env or {})}.items()]
        return on_cluster(["env", "-C", self.folder, *settings, *argv], timeout=timeout)

    def runner(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Run `runner` in the folder."""
        return self.run("runner", *words, env=env)

    def launch(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Run `runner launch` with the image."""
        return self.runner("launch", "--image", self.image, *words, env=env)

    def sh(self, script: str) -> str:
        """Return the output of a shell script that must succeed."""
        return succeeded(self.run("bash", "-ec", script)).stdout

    def write(self, name: str, text: str) -> str:
        """Write a file in the folder; return its path."""
        return write(f"{self.folder}/{name}", text)

    def write_all(self, files: Iterable[Path]) -> None:
        """Write copies of files of this checkout."""
        for file in files:
            self.write(file.name, file.read_text(encoding="utf-8"))

    def runs(self) -> list[str]:
        """Return the names of the runs' folders."""
        return self.sh("[ ! -d runs ] || ls runs").split()

    def told(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        """Return what `runner WORDS --json` prints; `result` must succeed."""
        done = self.runner(*words, "--json", env=env)
        assert done.stdout, done.stderr
        assert done.returncode == 0 or words[0] != "result", done.stderr
        return json.loads(done.stdout)

    def why(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        """Return why a run ended, as `runner explain WORDS --json` tells."""
        (diagnosis,) = self.told("explain", *words, env=env)["diagnoses"]
        return diagnosis


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker gets a whole file, as its tests share what one of them made, or one of ONE_BY_ONE.

    `--dist loadgroup` is for that, but xdist 3.8 does not see the groups of pytest 9.2.
    """
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = lambda nodeid: nodeid if is_single(nodeid) else nodeid.split("::")[0]
    return scheduler


def is_single(nodeid: str) -> bool:
    """Whether the test shares nothing with others of its file."""
    return Path(nodeid.split("::")[0]).name in ONE_BY_ONE


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark those of `make test`; what goes to workers one by one comes last, so that none waits."""
    first = [item for item in items if lanes.is_first(item.nodeid)]
    for item in first:
        item.add_marker(lanes.FIRST)
    if config.getoption("markexpr") == lanes.FIRST and len(first) < len(lanes.MECHANISMS):
        missing = set(lanes.MECHANISMS.values()).difference(
            lanes.name(item.nodeid) for item in first
        )
        raise pytest.UsageError(f"not collected, of tests/real/lanes.py: {', '.join(missing)}")
    items.sort(key=lambda item: is_single(item.nodeid))


@pytest.fixture(scope="session")
def cpu_group(request: pytest.FixtureRequest) -> Iterator[cpu_time.Group]:
    group = request.config.stash[cpu_time.GROUP] = cpu_time.Group()
    yield group
    group.leave()


@pytest.hookimpl(tryfirst=True)  # before fixtures: what tests share counts where it is made
def pytest_runtest_setup(item: pytest.Item) -> None:
    group = item.config.stash.get(cpu_time.GROUP, None)
    item.stash[cpu_time.BEFORE] = group.seconds or 0.0 if group else 0.0


@pytest.fixture(autouse=True)
def cpu_seconds(cpu_group: cpu_time.Group, request: pytest.FixtureRequest) -> Iterator[None]:
    """Note what a test and its fixtures took."""
    yield
    if (now := cpu_group.seconds) is not None:
        used = round(now - request.node.stash[cpu_time.BEFORE], 1)
        request.node.user_properties.append((cpu_time.SECONDS, used))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        TEARDOWNS.append(report)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the tests that took most CPU time, with their clusters."""
    lines = cpu_time.shown(TEARDOWNS)
    if lines:
        terminalreporter.section("CPU seconds, with the cluster's")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def cluster_of_this_worker(cpu_group: cpu_time.Group) -> Iterator[None]:
    """The first worker of pytest-xdist has the cluster of `make cluster-up`, others their own."""
    beside.unpack(State.locate())
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        cpu_group.join_cluster(State.locate())
        yield
    else:
        with beside.cluster("--nodes", "2"):
            yield


@pytest.fixture
def login(request: pytest.FixtureRequest) -> Iterator[Login]:
    """An empty folder of ada's; removed afterwards."""
    folder = new_folder()
    yield Login(folder, UNPACKED if request.node.get_closest_marker("unpacked") else IMAGE)
    on_cluster(["bash", "-c", LEAVE, "bash", folder])
