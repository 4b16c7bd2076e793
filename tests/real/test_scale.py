"""`runner scale`: interrupted and continued, within an allocation; its tables and its drawing."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator

import pytest

from runners.scale.references import references

from .conftest import UNPACKED, Login, ended, succeeded
from .places import BARE
from .studies import extra_packages, scale

# A trainer that tells what torch_mnist does; its job lasts longer than the study is left alone.
MEASURED = f"""{BARE}
import sys, time
hvd.init()
first = time.time()
mine = os.path.join(os.environ["OUTPUT_DIR"], "host-")
with open(f"{{mine}}{{hvd.rank()}}", "w") as file:
    file.write(os.uname().nodename)
time.sleep(12)
names, end = [f"{{mine}}{{rank}}" for rank in range(hvd.size())], time.time() + 60
while not all(os.path.exists(name) and os.path.getsize(name) for name in names):
    if time.time() > end:
        sys.exit("a rank has not told its host")
    time.sleep(0.1)
hosts = [open(name).read() for name in names]
result = dict(samples_per_s=9.5, hosts=hosts, world_size=len(hosts), first_step_unix_time=first,
              controller="mpi" if hvd.mpi_enabled() else "gloo")
if hvd.rank() == 0:
    epoch = dict(event="epoch", seconds=4.0, samples_per_s=9.5)
    with open(os.path.join(os.environ["OUTPUT_DIR"], "metrics.jsonl"), "w") as file:
        file.writelines(json.dumps(dict(epoch, epoch=number)) + "\\n" for number in (1, 2, 3))
    with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
        json.dump(result, file)
hvd.shutdown()
"""
STUDY = ["--nodes", "1,2", "--repeats", "2", "--vary", "controller=gloo,mpi", "--study", "st"]
REFERENCES = ("neuron-pytorch", "thetagpu-horovod-mnist")  # of the tutorials, shown beside


@pytest.fixture(scope="module")
def extra() -> Iterator[str]:
    with extra_packages() as folder:
        yield folder


def ids(login: Login, study: str) -> dict[str, str]:
    """Return the job of each run."""
    found = login.sh(f"grep -H '\"id\"' {study}/runs/*/job.json || true")
    return dict(re.findall(r"runs/([^/]+)/job\.json:\s*\"id\": \"(.*?)\"", found))


def test_without_matplotlib_there_are_tables_and_no_drawing(login: Login, extra: str) -> None:
    trainer = login.write("train.py", MEASURED)
    words = ["--nodes", "1", "--repeats", "1", "--study", "st", trainer]
    done = succeeded(login.runner("scale", "--image", UNPACKED, *words))
    assert "matplotlib is not installed" in done.stderr
    assert "-m pip install 'matplotlib>=3.7'" in done.stderr
    assert {"results.csv", "results.json"} == set(login.sh("ls -p st | grep results").split())
    assert login.sh("ls st | grep png || true") == ""
    render = ["--render-only", "st"]
    refused = login.runner("scale", *render)
    assert (refused.returncode, "--render-only needs matplotlib" in refused.stderr) == (80, True)
    succeeded(login.run("env", f"PYTHONPATH={extra}", "runner", "scale", *render))
    assert "scaling.png" in login.sh("ls st")


def test_an_interrupted_study_goes_on_and_runs_nothing_twice(login: Login, extra: str) -> None:
    beside = [f"--reference={name}" for name in REFERENCES]
    words = [*STUDY, *beside, login.write("train.py", MEASURED)]
    left = scale(login, extra, *words, limit="timeout --preserve-status -s INT 10")
    ended(left, 130, "runner scale --continue st")
    killed = scale(login, extra, *words, limit="timeout -s KILL 4")
    assert killed.returncode in (137, -9)  # as `timeout` tells it, or as it is ended itself
    continued = ["runner", "scale", "--continue", "st"]
    succeeded(login.run("env", f"PYTHONPATH={extra}", *continued, timeout=600))
    ran = ids(login, "st")
    assert sorted(ran) == sorted(
        f"{n}n-{c}-r{r}" for n in (1, 2) for c in ("gloo", "mpi") for r in (1, 2)
    )
    assert len({id.partition("_")[0] for id in ran.values()}) == 2, "one array for each size"
    again = succeeded(scale(login, extra, *words))
    assert "submitted" not in again.stderr
    assert ids(login, "st") == ran
    _numbers(login)
    rows = [line.split()[:2] for line in again.stdout.splitlines() if line]
    for published in references(REFERENCES):
        assert f"{published.name}: {published.title}; {published.source}" in again.stdout
        for ranks in published.ranks:
            assert [published.name, str(ranks)] in rows


def _numbers(login: Login) -> None:
    rows = list(csv.DictReader(io.StringIO(login.sh("cat st/results.csv"))))
    assert len(rows) == 8
    assert {row["hosts"] for row in rows if row["nodes"] == "2"} == {"n1 n2"}
    for row in rows:
        assert float(row["rate"]) > 0
        assert 0 < float(row["launch_seconds"]) < float(row["job_seconds"])
        assert row["controller"] == row["variant"]
    value = json.loads(login.sh("cat st/results.json"))
    assert len(value["points"]) == 4
    for point in value["points"]:
        assert point["rate"]["n"] == 2
        assert point["rate"]["value"] > 0
        assert [point["rate"][end] for end in ("low", "high")] == [None, None], "of two runs"
        assert point["launch_seconds"]["value"] > 0
    assert {comparison["variant"] for comparison in value["comparisons"]} == {"mpi"}
    assert "few-runs" in {diagnosis["id"] for diagnosis in value["diagnoses"]}
    assert {reference["name"] for reference in value["references"]} == set(REFERENCES)
    assert int(login.sh("wc -c < st/scaling.png")) > 20_000


def test_within_an_allocation_runs_go_one_after_the_other(login: Login, extra: str) -> None:
    exchanges = ["horovod", "ddp"]
    words = ["--nodes", "1x1,1x2", "--repeats", "1", "--strong", "--scheduler", "allocation"]
    words += ["--json", "--study", "al", "--vary", f"exchange={','.join(exchanges)}", "torch_mnist"]
    within = "env -u RUNNER_CPUS_PER_TASK salloc --quiet --nodes 1 --ntasks-per-node 4"
    done = succeeded(
        scale(login, extra, *words, "--", "--epochs", "2", "--batch-size", "64", limit=within)
    )
    value = json.loads(done.stdout)
    assert len({id.partition("_")[0] for id in ids(login, "al").values()}) == 1
    points = [(point["variant"], point["ranks"]) for point in value["points"]]
    assert points == [(exchange, ranks) for exchange in exchanges for ranks in (1, 2)]
    # The same samples in each step, whatever the ranks and whoever exchanges: the same steps.
    steps = login.sh("grep -h '\"steps\"' al/runs/*/result.json").split("\n")
    assert len(set(steps)) == 2, "one number, and the end of the text"
    records = login.sh("grep -h . al/runs/*/exit.json").splitlines()
    spans = sorted((record["began"], record["time"]) for record in map(json.loads, records))
    assert len(spans) == 4
    for (_, end), (began, _) in zip(spans, spans[1:]):
        assert began >= end - 1, "`time` is in whole seconds"
    listed = login.told("list", "--runs-dir", "al/runs")
    assert [run["state"] for run in listed] == ["COMPLETED"] * 4


def test_a_run_that_fails_is_told_and_tried_again_when_asked(login: Login, extra: str) -> None:
    trainer = login.write(
        "mine.py",
        "import json, os, sys\n"
        "from pathlib import Path\n"
        "if not Path('mended').exists() and os.environ['SLURM_NNODES'] == '2':\n"
        "    sys.exit('no second node today')\n"
        "if os.environ.get('SLURM_PROCID') == '0':\n"
        "    out = Path(os.environ['OUTPUT_DIR'], 'result.json')\n"
        "    ranks = int(os.environ['SLURM_NTASKS'])\n"
        "    out.write_text(json.dumps({'images_per_s': 9.5 * ranks, 'world_size': ranks}))\n"
        f"{BARE}hvd.init(); hvd.shutdown()\n",
    )
    words = ["--nodes", "1,2", "--repeats", "1", "--study", "mine", trainer]
    failed = ended(scale(login, extra, *words), 1)
    who = r"(both ranks|rank \d@n\d)"
    assert re.search(rf"failed: 2n-r1: {who}: .*no second node today", failed.stdout)
    assert "runner explain mine/runs/2n-r1" in failed.stderr
    login.sh("touch mended")
    mended = succeeded(scale(login, extra, *words))
    assert sorted(ids(login, "mine")) == ["1n-r1", "2n-r1", "2n-r1.2"]
    assert "images/s" in mended.stdout
