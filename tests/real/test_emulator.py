"""The tool at sizes that no test cluster has: 4,096 nodes, and a study of 500 runs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from .conftest import IMAGE, Login, ended, succeeded
from .thousands import NODES, Thousands, thousands

RUNS = 500
SHAPES = [
    ["--ntasks-per-node", "4", "--controller", "gloo"],
    ["--ntasks-per-node", "4", "--controller", "mpi", "--cpus-per-task", "32"],
    ["--requeue", "--signal", "USR1@600", "--time", "1-00:00:00", "--exclusive"],
    ["--stage-data", "node-local", "--data", "digits"],
    ["--nodelist", f"nid[0001-{NODES}]", "--distribution", "block:cyclic"],
]


@pytest.fixture
def there(login: Login) -> Iterator[Thousands]:
    with thousands(login) as found:
        yield found


def test_jobs_of_4096_nodes_pass_test_only(there: Thousands) -> None:
    there.sh("runner data synth mnist digits --samples 200")
    for number, shape in enumerate(SHAPES):
        words = ["launch", "--image", IMAGE, "--nodes", str(NODES), *shape, "--dry-run"]
        began = time.monotonic()
        done = succeeded(there.runner(*words, "torch_mnist"))
        assert time.monotonic() - began < 30  # no plan asks each node
        assert len(done.stdout) < 20_000  # nor does a script name each
        script = there.login.write(f"{number}.sbatch", done.stdout)
        told = there.sh(f"sbatch --test-only {script} 2>&1")
        assert f"on nodes nid[0001-{NODES}] in partition all" in told, told
    many = ",".join(f"nid{number:04}" for number in range(1, NODES + 1, 2))
    done = there.runner(
        *words[:3], "--nodes", "2048", "--nodelist", many, "--dry-run", "torch_mnist"
    )
    script = there.login.write("named.sbatch", done.stdout)
    assert "using 2048 processors" in there.sh(f"sbatch --test-only {script} 2>&1")


def test_a_study_of_500_runs_is_one_call_and_so_is_each_look_at_it(there: Thousands) -> None:
    seeds = ",".join(str(seed) for seed in range(RUNS))
    words = ["launch", "--image", IMAGE, "--partition", "closed", "--sweep", f"seed={seeds}"]
    there.calls()
    done = succeeded(
        there.runner(*words, "--array", "%20", "--json", "torch_mnist", "--", "--epochs", "1")
    )
    study = json.loads(done.stdout)
    assert len(study["runs"]) == RUNS
    assert Counter(there.calls())["sbatch"] == 1
    assert there.sh(f"squeue -h -r -j {study['ids'][0]} | wc -l").strip() == str(RUNS)
    there.calls()

    for look in (["list"], ["status", study["name"]], ["status", study["runs"][250]["id"]]):
        told = succeeded(there.runner(*look, "--json"))
        assert there.calls() == ["squeue"], look
    assert '"PENDING"' in told.stdout

    assert there.runner("cancel", study["ids"][0]).returncode == 0
    assert there.calls() == ["squeue", "scancel"]
    ended(there.runner("wait", study["name"]), 86, f"{RUNS} cancelled")
    assert there.calls() == []  # what has been seen to end is not asked for again
