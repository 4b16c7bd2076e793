"""Packages that the tutorials name, in an image made from ours: xprof, datasets, DeepSpeed, others.

All are in one image, which is built once: their requirements fit together, and with ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from .built import build
from .conftest import IMAGE, Done, Login, new_folder, on_cluster, succeeded, write
from .test_inside import session
from .test_one_model import SCRIPTS as TRAININGS
from .test_one_model import two_ranks
from .test_tutorials import SCRIPTS

pytestmark = pytest.mark.slow

REQUIREMENTS = "xprof\nHolisticTraceAnalysis\ndatasets\nhydra-core>=1.3\ndeepspeed"
CONFIG = "seed: 1\nsteps: 3\nbatch_size: 16\noptimizer:\n  lr: 0.1\n"
# What TensorBoard's page of profiles asks its server for, as one table after the other.
OVERVIEW = """
import gzip, json, sys, urllib.parse, urllib.request
server, token = sys.argv[1:]
def get(path, **query):
    url = f"{server}/data/plugin/profile/{path}?{urllib.parse.urlencode(query)}"
    headers = {"Authorization": f"token {token}", "Accept-Encoding": "gzip"}
    asked = urllib.request.Request(url, headers=headers)
    return json.loads(gzip.decompress(urllib.request.urlopen(asked, timeout=60).read()))
runs = sorted(get("runs"))
hosts = [host["hostname"] for host in get("hosts", run=runs[0], tag="overview_page")]
page = get("data", run=runs[0], tag="overview_page", host=hosts[0])
steps = [row["c"][0]["v"] for table in page for row in table.get("rows", ())]
facts = {key: value for table in page for key, value in table.get("p", {}).items()}
print(json.dumps({"runs": runs, "hosts": hosts, "rows": steps, "facts": facts}))
"""
# The traces of all ranks: operators of each, and the profiled steps.
ANALYSIS = """
import glob, os
from hta.trace_analysis import TraceAnalysis
found = {n: glob.glob(f"{os.getcwd()}/runs/*/profile/rank-{n}/*.json")[0] for n in (0, 1)}
analysis = TraceAnalysis(trace_files=found)
names = analysis.t.symbol_table.get_sym_table()
for rank, trace in sorted(analysis.t.traces.items()):
    events = {names[number] for number in trace["name"]}
    print("rank", rank, "convolutions", any("convolution" in name for name in events))
print("steps", len(analysis.get_profiler_steps()))
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Our CPU image with the packages."""
    folder = new_folder(name="added")
    made, wanted = f"{folder}/added.sif", write(f"{folder}/extra.txt", REQUIREMENTS)
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("RUNNER_PACK_LEVEL", "1")
        build("--from", IMAGE, "--requirements", wanted, "-o", made, seconds=1200)
    yield made
    on_cluster(["rm", "-rf", folder])


@pytest.fixture
def place(login: Login) -> Login:
    login.write_all(SCRIPTS.glob("*.py"))
    return login


def followed(place: Login, image: str, *words: str) -> Done:
    return succeeded(
        place.runner("launch", "--image", image, "--nodes", "2", "--follow", "--all", *words)
    )


def test_tensorboard_shows_the_overview_of_a_profile(login: Login, image: str) -> None:
    steps = ("tf_mnist", "--", "--max-steps", "10", "--profile", "3-6")
    succeeded(login.runner("launch", "--image", image, "--nodes", "2", "--wait", *steps))
    shown = session(login, "tensorboard", "tf_mnist-1")
    server = f"http://{shown['address']}:{shown['port']}"
    read = login.sh(f"python3 {login.write('overview.py', OVERVIEW)} {server} {shown['token']}")
    login.runner("cancel", shown["id"])
    overview = json.loads(read)
    assert re.findall(r"rank-\d", " ".join(overview["runs"])) == ["rank-0", "rank-1"]
    assert overview["hosts"] == ["n1"]
    assert [row for row in overview["rows"] if "train" in str(row)] == [
        f"train {step}" for step in (3, 4, 5, 6)
    ]
    assert overview["facts"]["hardware_type"] == "CPU_ONLY"
    assert float(overview["facts"]["steptime_ms_average"]) > 0


def test_holistic_trace_analysis_reads_the_traces_of_all_ranks(login: Login, image: str) -> None:
    steps = ("torch_mnist", "--", "--max-steps", "10", "--profile", "3-6")
    succeeded(login.runner("launch", "--image", image, "--nodes", "2", "--wait", *steps))
    script = login.write("analysis.py", ANALYSIS)
    said = login.sh(f"apptainer exec --bind {login.folder} {image} python {script}")
    for rank in (0, 1):
        assert f"rank {rank} convolutions True" in said
    assert re.search(r"steps [34]$", said.strip())


def test_a_share_of_a_dataset_for_each_rank(place: Login, image: str) -> None:
    rows = ({"text": "abcd" * (n % 5) + "a" * n, "label": n % 2} for n in range(40))
    place.write("texts.jsonl", "\n".join(map(json.dumps, rows)))
    done = followed(place, image, "hugging_face_datasets.py", "--", "texts.jsonl")
    assert "trained by 2 on 20 of 40 texts" in done.stdout
    assert "weights equal on all ranks" in done.stdout


def test_hydra_takes_changes_from_the_command_line(place: Login, image: str) -> None:
    place.sh("mkdir conf")
    place.write("conf/config.yaml", CONFIG)
    outputs = "hydra.run.dir=${oc.env:OUTPUT_DIR}/hydra/${oc.env:RANK}"
    changes = ("batch_size=8", "optimizer.lr=0.02", outputs)
    done = followed(place, image, "hydra_config.py", "--", *changes)
    assert "trained by 2 with batches of 8 and 16" in done.stdout
    assert "weights equal on all ranks (after 3 steps)" in done.stdout
    assert "lr: 0.02" in place.sh("cat runs/*/config.yaml")
    assert place.sh("ls runs/*/hydra").split() == ["0", "1"]


def test_deepspeeds_own_launcher_over_two_nodes(place: Login, image: str) -> None:
    """Two ranks on each; what it needs of its own is compiled at the first start."""
    agents = ("--ntasks-per-node", "2", "--launcher", "deepspeed", "--controller", "none")
    done = followed(place, image, *agents, "deepspeed_zero.py")
    assert "one world of 4 ranks (torch.distributed" in done.stdout
    assert "trained by 4 of local rank 0" in done.stdout
    assert place.sh("ls runs/*/global_step*/*optim_states.pt").count("\n") == 4


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zero_stage_0", "weights equal on all ranks (after 12 steps)"),
        ("zero_stages_1_to_3", "weights not checked: "),
    ],
)
def test_weights_of_deepspeed(login: Login, image: str, name: str, said: str) -> None:
    login.write_all([TRAININGS / "trainings.py"])
    login.sh("cp -r /opt/kit/runners/injob injob; cp -r /opt/kit/runners/contract injob")
    done = succeeded(two_ranks(login, "none", "trainings.py", name, image=image))
    assert f"runner: {said}" in done.stdout
