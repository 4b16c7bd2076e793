"""`runner explain`: every cause of `causes` really happens, and is explained; well jobs are not."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .beside import cluster
from .causes import ALL, INIT, WELL, Cause
from .conftest import CHECKOUT, FEW_THREADS, IMAGE, Login, ended, new_folder, on_cluster, succeeded

SECONDS = 400  # for all jobs together, on a machine that does much else


@pytest.fixture(scope="module")
def place() -> Iterator[Login]:
    """A folder of ada's with the causes' files; on n1 a full disk and one with a quota in it."""
    folder = new_folder()
    login = Login(folder)
    login.sh("mkdir full limited modules")
    full, limited = f"{folder}/full", f"{folder}/limited"
    on_n1("root", "mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "tmpfs", full)
    spec = importlib.util.find_spec("mfusepy")
    assert spec is not None, "pip install -r tests/requirements.txt"
    assert spec.origin is not None
    for file in (Path(spec.origin), CHECKOUT / "tests/real/small/limited.py"):
        login.write(f"modules/{file.name}", file.read_text())
    serve = ["python3", f"{folder}/modules/limited.py", f"{folder}/modules", limited, "100000"]
    on_n1("ada", "setsid", "--fork", "bash", "-c", f"{shlex.join(serve)} > /dev/null 2>&1 &")
    yield login
    on_n1("root", "umount", full, limited)
    on_cluster(["rm", "-rf", folder, "/home/ada/.local/lib/python3.11"])


def on_n1(user: str, *argv: str) -> None:
    """Run a command on the first compute node."""
    succeeded(on_cluster(list(argv), node="n1", user=user))


@pytest.fixture(scope="module")
def explained(place: Login) -> dict[str, dict[str, Any]]:
    """What `runner explain --json` says of each cause's job, by its name; all run at once."""
    causes = (*ALL, WELL)
    script = ["set -u", *map(file, causes), *map(submission, causes), WAIT, *map(asking, causes)]
    place.write("all.sh", "\n".join(script))
    settings = {**FEW_THREADS, "IMAGE": IMAGE}
    done = place.run("bash", "all.sh", env=settings, timeout=SECONDS + 120)
    answers = [json.loads(text) for text in done.stdout.split("\0")[:-1]]
    assert len(answers) == len(causes), done.stdout + done.stderr
    unanswered = [cause.name for cause, answer in zip(causes, answers) if answer is None]
    assert not unanswered, f"{unanswered}: {done.stderr}"
    return {cause.name: answer["diagnoses"][0] for cause, answer in zip(causes, answers)}


WAIT = f"""\
for i in $(seq {SECONDS}); do [ -n "$(squeue -h -u ada -o %i)" ] || break; sleep 1; done
sleep 1"""


def file(cause: Cause) -> str:
    """Return the shell that writes a cause's trainer."""
    if not cause.is_file:
        return ":"
    # In a folder of its own: Python looks for modules in a trainer's folder first.
    place = f"{cause.name}/{cause.name}.py"
    return f"mkdir {cause.name}; cat > {place} <<'ITS END'\n{cause.trainer}\nITS END"


def submission(cause: Cause) -> str:
    """Return the shell that launches a cause's job; held in the queue until `after` is done."""
    trainer = f"{cause.name}/{cause.name}.py" if cause.is_file else cause.trainer
    words = ["runner", "launch", "--parsable", "--job-name", cause.name]
    words += ["--image", cause.image or "horovod_cpu.sif", *cause.words]
    words += ["--sbatch-arg=--hold"] if cause.after else []
    args = ["--", *cause.args] if cause.args else []
    line = shlex.join([*words, trainer, *args])
    release = f"{cause.after}; scontrol release $id" if cause.after else ":"
    launch = f"id=$({line} 2> launch) || cat launch >&2"
    return "\n".join([cause.before, launch, release])


def asking(cause: Cause) -> str:
    """Return the shell that asks for the explanation of a cause's job."""
    return f"runner explain --json {cause.name}-1 || echo null; printf '\\0'"


@pytest.mark.parametrize("cause", ALL, ids=lambda cause: cause.name)
def test_a_cause_is_explained(explained: dict[str, dict[str, Any]], cause: Cause) -> None:
    said = explained[cause.name]
    shown = json.dumps(said, indent=2)
    assert said["id"] == cause.explained, shown
    assert said["certainty"] == cause.certainty, shown
    assert cause.said in said["what"], shown
    lines = [*said["evidence"], *said["traceback"]]
    assert any(cause.shown in line for line in lines), shown
    assert cause.fix in said["remedies"][0]["text"], shown
    if cause.rank:
        assert f"{said['rank']}@{said['host']}" == cause.rank, shown


def test_a_job_that_ended_well_is_not_explained(explained: dict[str, dict[str, Any]]) -> None:
    said = explained["well"]
    assert (said["id"], said["evidence"], said["remedies"]) == ("completed", [], [])


def test_a_followed_job_explains_itself_at_its_end(place: Login) -> None:
    place.write("boom.py", "raise KeyError('weights')")
    done = place.launch("--follow", "boom.py")
    assert done.returncode == 1
    assert "cause:         rank 0@n1 ended with KeyError: 'weights'" in done.stderr
    assert "first to fail: rank 0@n1" in done.stderr
    assert "boom.py && runner launch --image" in done.stderr


def test_srun_waits_for_ever_and_it_is_told_while_it_does(login: Login) -> None:
    """A job has less than its step wants: srun goes on asking for as long as the job has time."""
    login.write("hello.py", "print('hello')")
    words = ("--parsable", "--cpus-per-task", "2", "--sbatch-arg=--cpus-per-task=1")
    id = login.launch(*words, "hello.py").stdout.strip()
    login.sh("for i in $(seq 300); do grep -qs 'may never' runs/*/logs/job.log && exit; sleep 0.2; "
             "done; exit 9")  # fmt: skip
    for before in (f"runner cancel {id} && ", ""):
        said = login.why(id)
        fix = said["remedies"][0]["text"]
        assert (said["id"], fix.startswith(f"{before}runner launch ")) == ("no-step", True), said
        assert "--cpus-per-task 2" in fix
        assert "--sbatch-arg" not in fix
        assert "value exceeds that of job (2 > 1)" in said["what"], said
        login.runner("cancel", id)
        login.runner("wait", id)


@pytest.fixture
def dead_interface() -> Iterator[None]:
    """A cluster whose nodes have an interface that leads nowhere; commands go there meanwhile."""
    with cluster("--quirk", "dead-interface"):
        yield


@pytest.mark.usefixtures("dead_interface")
def test_an_interface_leads_nowhere_and_the_fix_mends_it(login: Login) -> None:
    login.write("init.py", INIT)
    words = ("--nodes", "2", "--controller", "gloo", "--network-interfaces", "eno1")
    ended(login.launch(*words, "--wait", "init.py"), 82)
    said = login.why()
    assert (said["id"], said["certainty"]) == ("wrong-interface", "certain"), said
    assert "through the requested interface: eno1" in said["what"]
    mended = login.sh(said["remedies"][0]["text"])
    assert mended == "", mended  # --wait says nothing of a job that ended well
