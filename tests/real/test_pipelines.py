"""A training as a step of a pipeline: the rules for Snakemake and the ReFrame test of the page.

The page's own files, but for a trainer that is at work after a second.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runners.core.digest import key
from tests import documents
from tests.cluster import rootfs
from tests.cluster.state import USER, State, locked

from .conftest import CHECKOUT, UNPACKED, Done, Login, succeeded
from .places import BARE

PAGE = documents.ROOT / "docs" / "guides" / "pipelines.md"
TOOLS = f"/scratch/{USER}/pipelines"
PACKAGES = ("snakemake==9.*", "ReFrame-HPC==4.*")
MAKE = f"""
python3 -m venv {TOOLS}
{TOOLS}/bin/pip install --quiet {shlex.join(PACKAGES)}
mkdir {TOOLS}/programs; ln -s ../bin/snakemake ../bin/reframe {TOOLS}/programs
"""
TRAINER = f"""{BARE}
import argparse
options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int)
options.add_argument("--base-lr", type=float, default=0.0)
given = options.parse_args()
hvd.init()
result = dict(world_size=hvd.size(), epochs=given.epochs, accuracy=given.base_lr, samples_per_s=7.5)
if hvd.rank() == 0:
    with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
        json.dump(result, file)
hvd.shutdown()
"""
QUICK = f"sed -i 's:horovod_cpu.sif:{UNPACKED}:; s:torch_mnist:{{trainer}}:'"


@pytest.fixture(scope="module")
def tools() -> Iterator[str]:
    """The folder of both programs, in an environment that is kept: pip takes half a minute."""
    state = State.locate()
    tree = rootfs.ensure(state, state.design.release)
    kept = state.cache / "pipelines" / key(make=MAKE, tree=tree.name)
    place = state.scratch / USER / "pipelines"
    shutil.rmtree(place, ignore_errors=True)  # of tests that were killed
    with locked(kept.parent):
        if not kept.exists():
            toolbox = [sys.executable, "-m", "tests.cluster", "toolbox", "--", "sh", "-ec", MAKE]
            subprocess.run(toolbox, cwd=CHECKOUT, check=True, timeout=600)
            place.rename(kept)
    shutil.copytree(kept, place, symlinks=True, copy_function=os.link)
    yield f"{TOOLS}/programs"
    shutil.rmtree(place)


def run(login: Login, tools: str, start: str) -> Done:
    """Type the page's command that starts so."""
    path = {"PATH": f"{tools}:/opt/runner/bin:/usr/bin:/bin"}
    return login.run("bash", "-c", documents.command(start), env=path)


def test_the_pages_pipelines_train_and_fail(login: Login, tools: str) -> None:
    for block in documents.blocks(PAGE):
        if "file" in block.marks:
            login.write(block.marks["file"], block.text)
    quick = QUICK.format(trainer=login.write("train.py", TRAINER))

    login.sh("sed -i.page 's/--epochs 2/--epochs none/' Snakefile")
    done = run(login, tools, "snakemake")
    assert done.returncode != 0
    assert login.sh("ls trained/*.json 2>/dev/null || true") == "", "nothing half-made stays"
    assert "runner: " in login.sh("cat trained/0.05.log"), "the reason is in the rule's log"

    login.sh(f"mv Snakefile.page Snakefile; {quick} Snakefile training.py")
    done = succeeded(run(login, tools, "snakemake"))
    best = json.loads(login.sh("cat best.json"))
    assert (best["world_size"], best["epochs"], best["accuracy"]) == (2, 2, 0.05)
    assert sorted(login.runs()) == ["rate-0.02-1", "rate-0.05-1"]

    done = succeeded(run(login, tools, "reframe"))
    assert "Ran 1/1 test case(s) from 1 check(s) (0 failure(s)" in done.stdout
    assert "7.5 samples/s" in done.stdout
