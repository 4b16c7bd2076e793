"""Kernels for another Jupyter server, and JupyterLab in an environment: no hub, its own client."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.state import UID, State

from .conftest import IMAGE, UNPACKED, Done, Login, new_folder, on_cluster, succeeded
from .studies import fetch
from .test_inside import CELL, session

# A client as in a hub, outside of any container: starts the kernel, runs cells, interrupts one.
CLIENT = """
import sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name=sys.argv[1], startup_timeout=60)
try:
    for cell in sys.argv[2:]:
        print(client.execute_interactive(cell, timeout=60)["content"]["status"], flush=True)
    asleep = client.execute("import time; print('asleep'); time.sleep(50)")
    while client.get_iopub_msg(timeout=30)["content"].get("text") != "asleep\\n":
        pass
    manager.interrupt_kernel()
    print(client._recv_reply(asleep, timeout=30)["content"]["ename"])
finally:
    manager.shutdown_kernel(now=True)
"""
WORLD = "import os, horovod.torch as hvd; hvd.init(); print(hvd.size(), os.environ['MINE'])"
PLACE = "import os, sys; print(sys.prefix, os.getcwd())"


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """An environment of ada's with JupyterLab, and so with a client and a kernel."""
    folder = new_folder(name="lab")
    try:
        wheels = State.locate().scratch / "ada" / Path(folder).name / "wheels"
        fetch(wheels, ["jupyterlab"])
        os.chown(wheels, UID, UID)
        words = f"--quiet --no-compile --no-index --find-links={folder}/wheels"
        install = f"env/bin/pip install {words} jupyterlab"
        succeeded(on_cluster(["bash", "-c", f"cd {folder} && python3 -m venv env && {install}"]))
        yield f"{folder}/env"
    finally:
        on_cluster(["rm", "-rf", folder])


@pytest.fixture
def hub(login: Login) -> Mapping[str, str]:
    """Where the server looks for kernels, and its files of connections, outside of the home."""
    login.sh("mkdir runtime notebooks")
    login.write("client.py", CLIENT)
    data = {"JUPYTER_DATA_DIR": f"{login.folder}/jupyter"}
    return {**data, "JUPYTER_RUNTIME_DIR": f"{login.folder}/runtime"}


def run_cells(login: Login, lab: str, hub: Mapping[str, str], kernel: str, *cells: str) -> Done:
    words = [f"{lab}/bin/python", "../client.py", kernel, *cells]
    return login.run("env", "-C", "notebooks", *words, env=hub)


def test_a_kernel_runs_cells_in_the_image(login: Login, lab: str, hub: Mapping[str, str]) -> None:
    login.sh(f"ln -s {IMAGE} my.sif")
    words = ("jupyter", "--kernel", "hvd", "--image", "my.sif", "--env", "MINE=a b")
    made = succeeded(login.runner(*words, env=hub))
    assert made.stdout == f"{login.folder}/jupyter/kernels/hvd/kernel.json\n"
    done = run_cells(login, lab, hub, "hvd", WORLD, PLACE)
    assert done.stdout.splitlines() == [
        *("1 a b", "ok", f"/opt/horovod {login.folder}/notebooks", "ok", "KeyboardInterrupt")
    ], done.stderr
    written = "find . -type f ! -path './private/*' ! -path '*/injob/*' -exec cat {} +"
    assert "a b" not in login.sh(f"cd jupyter/kernels/hvd && {written}")
    login.sh("rm my.sif")
    gone = run_cells(login, lab, hub, "hvd", WORLD)
    assert gone.returncode != 0
    assert f"the image of this kernel is gone: {login.folder}/my.sif" in gone.stderr
    assert "try: runner jupyter" in gone.stderr


def test_a_kernel_of_an_environment(login: Login, lab: str, hub: Mapping[str, str]) -> None:
    words = ("jupyter", "--kernel", "Mine", "--runtime", "none", "--image", lab)
    for _ in range(2):  # written again, as after a change of options
        assert login.runner(*words, env=hub).returncode == 0
    done = run_cells(login, lab, hub, "mine", PLACE)
    said = [f"{lab} {login.folder}/notebooks", "ok", "KeyboardInterrupt"]
    assert done.stdout.splitlines() == said, done.stderr


def test_what_is_no_kernel(login: Login, hub: Mapping[str, str]) -> None:
    login.sh("python3 -m venv env; mkdir -p jupyter/kernels/theirs")
    words = ("--runtime", "none", "--image", "env")

    def refused(name: str) -> tuple[int, str]:
        done = login.runner("jupyter", "--kernel", name, *words, env=hub)
        return done.returncode, done.stderr

    code, said = refused("new")
    assert code == 80
    assert "the kernel does not start: env has no ipykernel" in said
    assert refused("theirs")[0] == 2
    assert refused("a/b")[0] == 2
    assert login.sh("find jupyter -mindepth 2") == "jupyter/kernels/theirs\n"


def test_jupyterlab_in_an_environment(login: Login, lab: str) -> None:
    facts = session(login, "jupyter", "--runtime", "none", "--image", lab)
    server = facts["inside"].partition("/lab?")[0]
    login.write("cell.py", CELL.read_text(encoding="utf-8"))
    command = f"apptainer exec {UNPACKED} python3 cell.py {server} '{PLACE}'"
    out = login.sh(f"echo {facts['token']} | {command}")
    assert out.splitlines()[-1] == f"{lab} {login.folder}"
    login.runner("cancel", json.dumps(facts["id"]).strip('"'))
