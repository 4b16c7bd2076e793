"""`runner launch` on two nodes with the built image: the main job."""

from __future__ import annotations

import json
import re
import shlex
import time

import pytest

from .conftest import UNPACKED, Login, ended, succeeded
from .places import BARE

HELLO = f"""{BARE}
hvd.init()
print("rank", hvd.rank(), "of", hvd.size(), "local", hvd.local_rank(), hvd.local_size(),
      "cross", hvd.cross_rank(), hvd.cross_size())
hvd.shutdown()
"""
SHORT = ["--", "--epochs", "1"]
# Of the image: two thirds of the files, without which torch_mnist trains.
WITHOUT = ("tensorflow*", "keras*", "jupyter*", "transformers", "include", "tests", "/usr/share")
# By force: the plan refuses it.
WITHOUT_PMI = ("-N", "2", "--controller", "mpi", "--mpi", "none", "--force", "--follow", "--all")


@pytest.mark.unpacked
@pytest.mark.parametrize(
    ("trainer", "controller", "each"),
    [
        ("torch_mnist", "gloo", 1),
        ("tf_mnist", "mpi", 1),
        # README's launches are over MPI; Keras's trainers meet over Gloo in test_one_model.py.
        pytest.param("torch_mnist", "gloo", 2, marks=pytest.mark.slow),
        pytest.param("tf_mnist", "gloo", 1, marks=pytest.mark.slow),
    ],
)
def test_recipes_form_one_world_over_two_nodes_and_have_one_model(
    login: Login, trainer: str, controller: str, each: int
) -> None:
    """Several ranks on a node, without a framework's import: test_uneven_tasks."""
    shape = ["--nodes", "2", "--ntasks-per-node", str(each), "--controller", controller]
    done = succeeded(login.launch(*shape, "--follow", "--all", trainer, *SHORT))
    assert "runner: weights equal on all ranks (after " in done.stdout
    result = login.told("result")
    assert result["world_size"] == 2 * each
    assert sorted(result["hosts"]) == ["n1"] * each + ["n2"] * each
    assert result["weights"]["result"] == "equal"


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_uneven_tasks(login: Login, controller: str) -> None:
    trainer = login.write("hello.py", HELLO)
    shape = ["--nodes", "2", "--ntasks", "4", "--controller", controller]
    done = succeeded(login.launch(*shape, "--follow", "--all", trainer))
    lines = sorted(line for line in done.stdout.splitlines() if "| rank" in line)
    assert len(lines) == 4
    assert all("of 4" in line for line in lines)
    places = {re.search(r"local (\d+) \d+ cross (\d+) \d+", line).groups() for line in lines}  # type: ignore[union-attr]
    assert len(places) == 4


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_no_scheduler(login: Login, controller: str) -> None:
    trainer = login.write("hello.py", HELLO)
    done = succeeded(
        login.launch(
            "--scheduler", "local", "--ntasks", "2", "--controller", controller, "--all", trainer
        )
    )
    assert done.stdout.count("of 2 local") == 2


def test_arguments_and_variables_reach_the_trainer_unchanged(login: Login) -> None:
    hostile = ["a b", "it's", '"', "$HOME", "`id`", "x;y", "1,2", "a:b", "new\nline", "é☃", "*", ""]
    name = "train $(touch bad) it's, a:b.py"
    trainer = login.write(
        name, "import json, os, sys; print('ARGS', json.dumps([sys.argv[1:], os.environ['ODD']]))"
    )
    named = ["--job-name", 'odd "$name"; #1', "--env", "ODD=" + "|".join(hostile)]
    done = succeeded(login.launch("--follow", "--all", *named, trainer, "--", *hostile))
    line = next(line for line in done.stdout.splitlines() if "ARGS" in line)
    assert json.loads(line.split("ARGS ")[1]) == [hostile, "|".join(hostile)]
    assert "bad" not in login.sh("ls").split()


@pytest.mark.parametrize("folder", ["a\\b%j c", "p%jq"])
def test_logs_in_odd_folders_and_values_of_env_for_their_owner(login: Login, folder: str) -> None:
    """sbatch reads a backslash in --output as the end of all patterns."""
    trainer = login.write("say.py", "import os; print('VALUE', len(os.environ['SECRET']))")
    secret = ("--env", 'SECRET=it\'s $(id), "x"\ntwo')
    words = ("--runs-dir", f"{folder}/runs", "--job-name", "say", *secret, "--wait")
    for more, runs in (((), ["say-1"]), (("--array", "0-1"), ["say-2_0", "say-2_1"])):
        succeeded(login.launch(*words, *more, trainer))
        for run in runs:
            assert "VALUE 19" in login.sh(f"cat '{folder}/runs/{run}/logs/job.log'")
    files = f"find '{folder}/runs' -type f"
    with_values = "-exec grep -lF '$(id)' '{}' +"
    assert login.sh(f"{files} -name env.sh {with_values}").count("env.sh") == 3
    assert login.sh(f"{files} -perm /077 {with_values} || true") == ""


def test_errors_have_a_file_of_their_own_and_the_log_has_them_too(login: Login) -> None:
    trainer = login.write(
        "says.py",
        "import sys\nprint('to out', flush=True)\nprint('to err', file=sys.stderr)\n"
        "if sys.argv[1:]: raise Odd",
    )
    words = ("--no-gate", "--controller", "none", "-o", "%x_%j.out", "-e", "%x_%j.err", "--wait")
    succeeded(login.launch(*words, "-N", "2", "--job-name", "both", trainer))
    out, err = login.sh("cat both_*.out"), login.sh("cat both_*.err")
    for name in ("0@n1", "1@n2"):  # srun mixes the ranks' lines, and keeps the order of each rank's
        own = [line for line in out.splitlines() if line.startswith(name)]
        assert own == [f"{name} | to out", f"{name} | to err"]
    assert sorted(err.splitlines()) == ["0@n1 | to err", "1@n2 | to err"]
    ended(login.launch(*words, "--job-name", "one", trainer, "--", "fail"), 1)
    for end in ("out", "err"):
        assert "NameError: name 'Odd' is not defined" in login.sh(f"cat one_*.{end}")
    assert "NameError" in login.runner("explain").stdout


def test_what_started_the_ranks_is_explained_from_the_file_of_errors(login: Login) -> None:
    trainer = login.write("t.py", "print('never')")
    done = login.launch(
        "-e", "t.err", "--apptainer-arg=--bind=/no/such:/there", "--wait", trainer
    )  # fmt: skip
    assert done.returncode not in (0, 2), done.stdout + done.stderr
    assert "/no/such" in login.sh("cat t.err")
    said = login.runner("explain")
    assert "/no/such" in said.stdout + said.stderr


def test_nothing_of_the_host_leaks_in(login: Login) -> None:
    login.sh("mkdir host")
    login.write(
        "host/sitecustomize.py",
        "import os\nif os.path.exists('/.singularity.d'): raise SystemExit('host file imported')",
    )
    trainer = login.write(
        "env.py",
        "import json, os, site\n"
        "print('ENV', json.dumps([dict(os.environ), site.ENABLE_USER_SITE]))",
    )
    leaks = {"PYTHONPATH": f"{login.folder}/host", "LD_LIBRARY_PATH": "/host", "NCCL_DEBUG": "INFO"}
    done = succeeded(login.launch("--follow", "--all", trainer, env=leaks))
    line = next(line for line in done.stdout.splitlines() if "ENV" in line)
    env, user_site = json.loads(line.split("ENV ")[1])
    assert "/host" not in env["PYTHONPATH"]
    assert "/host" not in env.get("LD_LIBRARY_PATH", "")
    assert user_site is False
    assert env["NCCL_DEBUG"] == "INFO"
    assert env["SLURM_JOB_ID"]


def test_dry_run_is_what_is_submitted_and_it_runs_by_hand(login: Login) -> None:
    trainer = login.write("hello.py", HELLO)
    words = ["--nodes", "2", trainer]
    script = login.launch("--dry-run", *words).stdout
    assert login.runs() == []
    assert login.launch("--wait", *words).returncode == 0
    assert login.sh("cat runs/hello-1/job.sbatch") == script
    login.sh("cd /; sbatch --wait " + f"{login.folder}/runs/hello-1/job.sbatch")
    assert login.sh("cat runs/hello-1/logs/job.log").count("of 2 local") == 2


def test_data_is_bound_read_only(login: Login) -> None:
    login.sh("mkdir 'my data'; echo hello > 'my data/x'")
    trainer = login.write(
        "data.py",
        "import os; d = os.environ['DATA_DIR']; print('SAW', open(d + '/x').read().strip())\n"
        "try: open(d + '/y', 'w')\nexcept OSError as e: print('DENIED', e)",
    )
    done = login.launch("--data", "my data", "--follow", "--all", trainer)
    assert "SAW hello" in done.stdout
    assert "DENIED" in done.stdout


def test_gpu_jobs_ask_slurm_for_gpus(login: Login) -> None:
    trainer = login.write("gpu.py", "import os; print('SEES', os.environ['CUDA_VISIBLE_DEVICES'])")
    gpus = ("-p", "gpu", "--gpus-per-node", "A100:2")
    done = succeeded(login.launch(*gpus, "--no-nv", "--no-gate", "--follow", "--all", trainer))
    assert done.stdout.count("SEES 0,1") == 2  # one rank for each GPU, and each sees both


class TestWorldSizeGate:
    """Ranks that would train alone must not."""

    def test_mpi_that_finds_no_pmi(self, login: Login) -> None:
        """Debian's Open MPI 4.1 under srun ends the process within MPI_Init."""
        trainer = login.write("hello.py", HELLO)
        start = time.monotonic()
        done = ended(login.launch(*WITHOUT_PMI, trainer), 82)
        assert re.search(r"no process group on rank \d@n\d: it exited in hvd.init\(\)", done.stdout)
        assert "runner launch --controller mpi --mpi pmix" in done.stdout
        assert time.monotonic() - start < 60

    def test_silent_singletons(self, login: Login) -> None:
        """Without Slurm's variables the same MPI makes a world of one and says nothing."""
        hide = "import os\nfor name in list(os.environ):\n    if name[:5] in ('SLURM', 'PMIX_'): "
        trainer = login.write(
            "alone.py", hide + "del os.environ[name]\n" + HELLO + "print('ALONE')"
        )
        done = ended(login.launch(*WITHOUT_PMI, trainer), 82)
        assert re.search(r"world-size mismatch on rank \d@n\d: 2 ranks were started", done.stdout)
        assert "Horovod has world size 1" in done.stdout
        assert "ALONE" not in done.stdout

    def test_gloo_that_the_trainer_broke(self, login: Login) -> None:
        trainer = login.write(
            "alone.py", "import os; os.environ['HOROVOD_SIZE'] = '1'\n" + HELLO + "print('ALONE')"
        )
        done = login.launch("-N", "2", "--controller", "gloo", "--follow", "--all", trainer)
        assert done.returncode == 82, done.stdout + done.stderr
        assert "ALONE" not in done.stdout


DYING = """
import os, sys, time
import horovod.torch as hvd
import torch
hvd.init()
hvd.allreduce(torch.ones(1))
print("DYING AT", time.time(), flush=True) if hvd.rank() == 1 else None
if hvd.rank() == 1:
    {how}
while True:
    hvd.allreduce(torch.ones(1)); time.sleep(0.1)
"""
KILLED = ("os.kill(os.getpid(), 9)", 137, "1@n2 | killed by signal 9 (SIGKILL)")


@pytest.mark.unpacked
@pytest.mark.parametrize(
    ("how", "code", "words", "controller"),
    [
        ("raise ValueError('boom')", 1, "1@n2 | exit code 1: ValueError: boom", "gloo"),
        ("sys.exit(7)", 7, "1@n2 | exit code 7", "mpi"),
        # test_explain_deaths.py kills one without a world.
        pytest.param(*KILLED, "gloo", marks=pytest.mark.slow),
        pytest.param(*KILLED, "mpi", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_dies_ends_the_job(
    login: Login, how: str, code: int, words: str, controller: str
) -> None:
    trainer = login.write("die.py", DYING.format(how=how))
    done = login.launch("-N", "2", "--controller", controller, "--follow", "--all", trainer)
    ended = time.time()
    assert done.returncode == code, done.stdout + done.stderr
    assert "first to fail: rank 1@n2" in done.stderr
    assert words in done.stderr
    died = float(re.search(r"DYING AT ([\d.]+)", done.stdout).group(1))  # type: ignore[union-attr]
    assert ended - died < 10


def test_image_of_others_gets_the_recipe_and_the_gate(login: Login) -> None:
    """A sandbox without our labels is looked into: the recipe is brought along, and it trains."""
    left_out = ("/.singularity.d/labels.json", "/trainers", *WITHOUT)
    login.sh(f"rsync -a {shlex.join(f'--exclude={path}' for path in left_out)} {UNPACKED}/ box")
    done = succeeded(
        login.runner(
            "launch", "--image", "box", "-N", "2", "--follow", "--all", "-v", "torch_mnist", *SHORT
        )
    )
    assert "inspecting box, which has no labels of this project" in done.stderr
    assert "controller: mpi (the image has PMIx 4.2.2 and srun offers" in done.stderr
    assert login.told("result")["world_size"] == 2
