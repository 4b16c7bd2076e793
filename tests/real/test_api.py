"""The Python API on a cluster, from a program on its login node: the page's, and one of each call.

The trainer loads Horovod without torch's Python, so that a job takes seconds.
"""

from __future__ import annotations

import json

from tests import documents

from .conftest import IMAGE, Login
from .places import BARE_TRAINER
from .studies import extra_packages

PAGE = documents.ROOT / "docs" / "guides" / "python-api.md"
TRAIN = (
    BARE_TRAINER.replace("hvd.shutdown()\n", "")
    + """
import sys, time
if "--wait" in sys.argv:
    print("waits", flush=True)
    time.sleep(600)
rate = float(sys.argv[sys.argv.index("--lr") + 1])
if hvd.rank() == 0:
    with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
        json.dump({"loss": 1 / rate, "size": hvd.size()}, file)
hvd.shutdown()
"""
)
EACH_CALL = """
import json, sys
import runners

image = sys.argv[1]
settings = {"image": image, "nodes": 2, "time": 10}
trained = runners.launch("train.py", args=["--lr", 0.5], **settings)
waits = runners.launch("train.py", args=["--wait"], controller="gloo", **settings)
failed = runners.launch("train.py", args=["--lr", 0], **settings)
said = {"states": [trained.wait().name, failed.wait().name]}
said["result"] = trained.result()
places = [line for line in trained.logs().splitlines() if "PLACE" in line]
said["ranks"] = sorted(line.split("@")[0] for line in places)
said["rank 1"] = "PLACE" in trained.logs(rank=1)
while "waits" not in waits.logs() and not waits.wait(1).ended:
    pass
before = waits.state.name
now = waits.status()
said["status"] = [now.state.name, now.nodes != "", now.elapsed >= 0, 500 < now.left <= 600]
runners.job(waits.id).cancel()
said["waited"] = [before, waits.wait().name]
ended = failed.status()
said["ended"] = [ended.state.name, ended.exit_code, ended.left, ended.folder == failed.folder]
said["ended why"] = ended.why
why = failed.explain()
said["why"] = [why.what, str(why.fix)]
try:
    failed.result()
except runners.JobFailed as error:
    said["failed"] = [error.what, error.evidence, [str(remedy) for remedy in error.remedies]]
try:
    runners.launch("train.py", **settings, controller="mpi", mpi="none")
except runners.RunnerError as error:
    said["refused"] = [type(error).__name__, error.what, [str(remedy) for remedy in error.remedies]]
try:
    runners.launch("train.py", imagee=image)
except runners.UsageError as error:
    said["unknown"] = [error.what, error.evidence]
print(json.dumps(said))
"""


def test_the_pages_program(login: Login) -> None:
    login.write("train.py", TRAIN)
    login.sh(f"ln -s {IMAGE} horovod_cpu.sif")
    for block in documents.blocks(PAGE):
        if "file" in block.marks:
            login.write(block.marks["file"], block.text)
        for command in block.commands:
            done = login.run("bash", "-c", command)
            assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["rate 0.1: loss 10.0", "rate 0.01: loss 100.0"]
    assert "divides by zero" in lines[2]
    assert "runner " in lines[3], "what to type next"


def test_a_search_by_optuna(login: Login) -> None:
    login.write("train.py", TRAIN)
    (search,) = (
        block for block in documents.blocks(PAGE) if block.marks.get("file") == "search.py"
    )
    login.write("search.py", search.text)
    with extra_packages("optuna") as extra:
        env = {"PYTHONPATH": extra, "RUNNER_IMAGE": IMAGE}
        done = login.run("python3", "search.py", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 {'lr': ")
    assert login.runs() == [f"train-{number}" for number in range(1, 5)]


def test_each_call(login: Login) -> None:
    login.write("train.py", TRAIN)
    login.write("calls.py", EACH_CALL)
    done = login.run("python3", "calls.py", IMAGE)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["states"] == ["COMPLETED", "FAILED"]
    assert said["result"].pop("weights")["result"] == "not-checked"  # the trainer has none
    assert [node["ranks"] for node in said["result"].pop("use")["nodes"]] == [1, 1]
    assert said["result"] == {"loss": 2.0, "size": 2}
    assert (said["ranks"], said["rank 1"]) == (["0", "1"], True)
    assert said["waited"] == ["RUNNING", "CANCELLED"]
    assert said["status"] == ["RUNNING", True, True, True]
    assert said["ended"] == ["FAILED", 1, None, True]
    assert "ZeroDivisionError" in said["ended why"]

    cause, fix = said["why"]
    what, evidence, remedies = said["failed"]
    assert "divides by zero" in cause
    assert what.endswith(cause)
    assert "failures/rank-" in evidence
    assert remedies == [fix]
    name, _, remedies = said["refused"]
    assert name == "Refused"
    assert remedies
    assert said["unknown"][0] == "there is no setting 'imagee'"
    assert "image" in said["unknown"][1]

    shown = login.runner("explain")
    assert fix in shown.stdout, "the command line says the same of the last one"
