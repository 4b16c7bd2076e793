"""The gate in whichever process forms a world: the real shim around stand-ins for frameworks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import runners.injob.rank
from runners.contract.enums import Controller
from runners.contract.exit_codes import EXIT_WORLD_SIZE
from runners.contract.failure_kinds import FailureKind
from runners.injob import task
from runners.injob.rank import gate, reports, trainer_command, world_messages, world_watch
from runners.injob.rank.gate_settings import GateSettings
from runners.injob.rank.reports import ReportState

from ..programs import program
from . import shim
from .srun_environment import FIRST

RANK = Path(runners.injob.rank.__file__).parent
PACKAGES = {
    "torch/distributed/distributed_c10d.py": (
        "import os\n"
        "def init_process_group(backend='gloo', size=None):\n"
        "    global world\n"
        "    world = int(os.environ['WORLD_SIZE']) if size is None else size\n"
        "def get_world_size(): return world\n"
        "def get_rank(): return int(os.environ['RANK'])\n"
        "def get_backend(): return 'gloo'\n"
    ),
    "tensorflow/python/distribute/collective_all_reduce_strategy.py": (
        "import json, os\n"
        "class TFConfigClusterResolver: pass\n"
        "class CollectiveAllReduceExtended:\n"
        "    def __init__(self): self._initialize_strategy(TFConfigClusterResolver(), None)\n"
        "    def _initialize_strategy(self, cluster_resolver, devices):\n"
        "        found = json.loads(os.environ.get('TF_CONFIG', '{}'))\n"
        "        self._num_workers = len(found['cluster']['worker']) if found else 1\n"
        "        self._task_id = found['task']['index'] if found else 0\n"
    ),
    "mpi4py/MPI.py": (
        "import os\n"
        "class COMM_WORLD:\n"
        "    Get_size = staticmethod(lambda: int(os.environ.get('FAKE_MPI_SIZE', '1')))\n"
        "    Get_rank = staticmethod(lambda: int(os.environ['RANK']))\n"
        "def Is_initialized(): return True\n"
    ),
}
TORCH = "from torch.distributed import distributed_c10d as d\nd.init_process_group({})\n"
MIRRORED = (
    "from tensorflow.python.distribute import collective_all_reduce_strategy as s\n"
    "s.CollectiveAllReduceExtended()\n"
)


def packages(folder: Path) -> Path:
    """Return the folder with the stand-ins: one for all tests, so that they are compiled once."""
    lib = folder.parent / "stand-ins"
    for name, text in PACKAGES.items() if not lib.exists() else ():
        file = lib / name
        for package in [*file.parents][: len(Path(name).parts) - 1]:
            package.mkdir(parents=True, exist_ok=True)
            (package / "__init__.py").touch()
        file.write_text(text)
    return lib


def run(
    tmp_path: Path, trainer: str, *options: str, command: tuple[str, ...] = (), **variables: str
) -> tuple[int, str]:
    """Run the real shim around a trainer, as two tasks on this machine.

    No record of an earlier run is there, by which rank 0 would not wait for others: the job's
    script removes them too.
    """
    shutil.rmtree(tmp_path / "failures", ignore_errors=True)
    (tmp_path / "train.py").write_text(trainer)
    variables = {"PYTHONPATH": str(packages(tmp_path)), **variables}
    two = ("--tasks", "2", "--controller", "none", *options)
    return shim.run(tmp_path, *two, trainer=command, **variables)


def recorded(tmp_path: Path) -> set[str]:
    """Return the kinds of the records: a rank may also have ended since the other had."""
    files = (tmp_path / "failures").glob("rank-*.json")
    return {json.loads(file.read_text())["kind"] for file in files}


def test_a_right_world_passes_in_any_process(tmp_path: Path) -> None:
    """Here in a grandchild of a shell, below in the process that the shim starts."""
    child = f"import subprocess; subprocess.run({[sys.executable, str(tmp_path / 'train.py')]})"
    shell = ("bash", "-c", 'exec "$0" -c "$1"', sys.executable, child)
    code, out = run(tmp_path, TORCH.format(""), command=shell)
    assert code == 0, out
    assert out.count("runner: one world of 2 ranks (torch.distributed, gloo)") == 1


@pytest.mark.parametrize(
    ("how", "trainer", "framework", "remedy"),
    [
        ("file", TORCH.format("size=1"), "torch.distributed", "init_process_group() without them"),
        ("grandchild", MIRRORED, "tf.distribute", "runner launch --tf-config"),
    ],
)
def test_a_smaller_world_ends_with_82(
    tmp_path: Path, how: str, trainer: str, framework: str, remedy: str
) -> None:
    file = str(tmp_path / "train.py")
    call = f"import subprocess, sys; sys.exit(subprocess.call(['{sys.executable}', '{file}']) != 0)"
    command = () if how == "file" else (sys.executable, "-c", call)
    # A slow rank may have no place in the world any more: the other has ended, and so does the job.
    late = "except KeyError: __import__('time').sleep(5); __import__('os')._exit(1)"
    lines = trainer.replace(chr(10), chr(10) + "  ")
    text = f"try:\n  {lines}\n{late}\nfinally: print('trained on')"
    code, out = run(tmp_path, text, command=command)
    assert code == EXIT_WORLD_SIZE, out
    assert f"2 ranks were started, but {framework} has world size 1" in out
    assert remedy in out
    assert "trained on" not in out
    assert FailureKind.WORLD_SIZE in recorded(tmp_path)


def test_without_any_world_a_green_end_is_a_failure(tmp_path: Path) -> None:
    code, out = run(tmp_path, "print('done')")
    assert code == EXIT_WORLD_SIZE
    assert "created no process group of the 2 ranks: it ran alone" in out
    assert "runner launch --no-gate" in out
    assert FailureKind.NO_WORLD_FORMED in recorded(tmp_path)


def test_no_gate_lets_independent_ranks_be(tmp_path: Path) -> None:
    """One of a world of its own, and one of none; both with the user's own place to meet."""
    text = "import os; print(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])\n"
    alone = TORCH.format("size=1").replace("\n", "\n  ")
    text += f"if os.environ['RANK'] == '0':\n  {alone}"
    code, out = run(tmp_path, text, "--no-gate", MASTER_ADDR="own", MASTER_PORT="1")
    assert (code, out.count("| own 1")) == (0, 2), out


@pytest.mark.parametrize(("end", "code"), [("", 0), ("; raise SystemExit(3)", 134)])
def test_an_abort_on_pythons_way_out_is_no_failure(tmp_path: Path, end: str, code: int) -> None:
    """As of threads of torch's, when the trainer has done its work; not of one that failed."""
    words = "terminate called without an active exception"
    late = f"import atexit, os; atexit.register(os.abort); atexit.register(print, '{words}')"
    found, out = run(tmp_path, late + end, "--no-gate")
    assert found == code, out
    assert ("Python aborted after the trainer's end" in out) == (code == 0)


def test_an_mpi_of_one_counts_only_where_no_other_world_is_right(tmp_path: Path) -> None:
    mpi = "from mpi4py import MPI\n"
    assert run(tmp_path, mpi + TORCH.format(""))[0] == 0
    code, out = run(tmp_path, mpi)
    assert code == EXIT_WORLD_SIZE
    assert "likely cause: the MPI in the image" in out
    assert run(tmp_path, mpi, FAKE_MPI_SIZE="2")[0] == 0
    code, out = run(tmp_path, mpi, FAKE_MPI_SIZE="3")
    assert code == EXIT_WORLD_SIZE
    assert "not one mpi4py world: 2 of the 3 ranks of its world belong to this" in out


def test_a_second_framework_with_another_world_is_refused(tmp_path: Path) -> None:
    code, out = run(tmp_path, TORCH.format("") + MIRRORED)
    assert code == EXIT_WORLD_SIZE
    assert "tf.distribute has world size 1" in out


def test_tf_config_is_set_where_asked_and_the_users_own_is_checked(tmp_path: Path) -> None:
    code, out = run(tmp_path, MIRRORED, "--tf-config")
    assert code == 0, out
    assert "one world of 2 ranks (tf.distribute)" in out
    same = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}
    code, out = run(tmp_path, MIRRORED, TF_CONFIG=json.dumps(same))
    assert code == EXIT_WORLD_SIZE
    assert "TF_CONFIG names 2 workers, and makes this rank number 0" in out


def test_ranks_get_what_frameworks_ask_for(tmp_path: Path) -> None:
    """Whatever was exported for another job; the port is free, and the same on all ranks."""
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK OMPI_COMM_WORLD_RANK"
    text = (
        "import os, socket\n"
        f"print(*map(os.environ.get, '{names} MASTER_ADDR MASTER_PORT'.split()))\n"
        "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "if os.environ['RANK'] == '0': s.bind(('', int(os.environ['MASTER_PORT']))); s.listen()\n"
    )
    code, out = run(tmp_path, text, "--no-gate", RANK="7", WORLD_SIZE="9")
    assert code == 0, out
    said = [line for line in out.splitlines() if " | " in line]
    words = sorted(line.partition("| ")[2].rpartition(" ") for line in said)
    assert [first for first, _, _ in words] == ["0 2 0 2 0 0 127.0.0.1", "1 2 1 2 0 1 127.0.0.1"]
    assert len({port for _, _, port in words}) == 1


def test_a_users_own_sitecustomize_is_loaded_too(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.OWN = 'loaded'\n")
    paths = f"{own}:{packages(tmp_path)}"
    file = str(tmp_path / "train.py")
    text = "print(OWN)\n" + TORCH.format("")
    code, out = run(tmp_path, text, command=(sys.executable, file), PYTHONPATH=paths)
    assert (code, out.count("| loaded")) == (0, 2), out


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, out = run(tmp_path, "", command=("no-such program; $HOME", "x"))
    assert code == 127
    assert "error: cannot run no-such program; $HOME in the image" in out


@pytest.mark.parametrize(
    ("tasks", "workers", "variables", "sizes"),
    [
        (1, 1, {}, {1, 2, 4, 8}),
        (4, 1, {}, {4, 8}),
        (2, 4, {}, {8}),
        (4, 1, {"GROUP_WORLD_SIZE": "4"}, {4, 8}),
        (4, 1, {"GROUP_WORLD_SIZE": "1"}, set()),
        (1, 1, {"GROUP_WORLD_SIZE": "1"}, {1, 2, 4, 8}),
    ],
)
def test_which_sizes_can_be_the_jobs_world(
    tasks: int, workers: int, variables: dict[str, str], sizes: set[int]
) -> None:
    """A task may start several ranks; a torchrun within has to have an agent in every task."""
    me = replace(task.read("srun", FIRST), size=tasks)
    settings = GateSettings(me, Controller.NONE, "", ("", ""), (0, ""), False, workers=workers)
    env = {**variables, **({"TORCHELASTIC_RUN_ID": "1"} if variables else {})}
    assert {size for size in (1, 2, 4, 8) if gate.fits(settings, size, env)} == sizes


SEVERAL = """
import os, subprocess, sys
for rank in {ranks}:
    env = dict(os.environ, RANK=str(rank))
    subprocess.run([sys.executable, "-c", {trainer!r}], env=env)
"""
LOCAL = "range({0})"  # each task numbers its ranks from 0
GLOBAL = "range(int(os.environ['RANK']) * {0}, (int(os.environ['RANK']) + 1) * {0})"


@pytest.mark.parametrize(
    ("ranks", "size", "code", "said"),
    [
        (GLOBAL.format(2), 4, 0, "runner: one world of 4 ranks (torch.distributed, gloo)"),
        (LOCAL.format(2), 2, 82, "both have a rank 0 of 2: each is a world of its own"),
        (GLOBAL.format(2), 8, 82, "4 of the 8 ranks of its world belong to this job"),
    ],
)
def test_ranks_that_tasks_start_themselves_are_one_world_or_the_job_fails(
    tmp_path: Path, ranks: str, size: int, code: int, said: str
) -> None:
    """As mp.spawn on each node does with MASTER_ADDR=localhost; no exit code of theirs tells."""
    trainer = TORCH.format(f"size={size}")
    found, out = run(tmp_path, SEVERAL.format(ranks=ranks, trainer=trainer))
    assert found == code, out
    assert said in out
    assert out.count("one world of 4 ranks (") == (code == 0)
    if code:
        assert FailureKind.SEVERAL_WORLDS in recorded(tmp_path)
        assert "runner launch --ntasks-per-node N ... train.py" in out


def test_a_report_tells_how_many_processes_of_its_task_are_to_follow() -> None:
    """Two ranks of worlds of their own fit together, until the others are heard."""
    inbox = reports.Inbox()
    called, formed = ReportState.CALLED, ReportState.FORMED
    for state, process in ((called, 1), (called, 2), (formed, 2), (formed, 1)):
        reports.tell(inbox.name, inbox.token, "torch.distributed", state, process=process)
    reports.tell(inbox.name, inbox.token, "mpi4py", ReportState.CALLED, process=3)
    inbox.read()
    assert [report.fields["entering"] for report in inbox.unread_reports()] == [1, 0]


def test_an_init_that_failed_before_does_not_hide_the_world(tmp_path: Path) -> None:
    text = (
        "import os, subprocess, sys\n"
        "if sys.argv[1:]: del os.environ['WORLD_SIZE']  # it fails within the call\n"
        "else: subprocess.run([sys.executable, __file__, 'fails'])\n"
    )
    code, out = run(tmp_path, text + TORCH.format(""))
    assert "KeyError: 'WORLD_SIZE'" in out
    assert code == 0, out
    assert out.count("runner: one world of 2 ranks (torch.distributed, gloo)") == 1


def test_one_task_may_start_as_many_ranks_as_it_likes(tmp_path: Path) -> None:
    text = SEVERAL.format(ranks=LOCAL.format(2), trainer=TORCH.format("size=2"))
    code, out = run(tmp_path, text, "--tasks", "1")
    assert code == 0, out
    assert out.count("runner: one world of 2 ranks (torch.distributed, gloo)") == 1


def test_who_ran_alone_hears_what_would_have_joined_the_ranks(tmp_path: Path) -> None:
    code, out = run(tmp_path, "import tensorflow")
    assert code == EXIT_WORLD_SIZE
    assert "try: tf.distribute.MultiWorkerMirroredStrategy(), and runner launch --tf-c" in out
    assert "--no-gate" not in out


@pytest.mark.parametrize(
    ("controller", "mpi", "remedy"),
    [
        (Controller.MPI, "none", "--mpi pmix"),
        (Controller.MPI, "pmi2", "gloo"),
        (Controller.GLOO, "none", "check-build"),
    ],
)
def test_message_of_another_size(
    tmp_path: Path, controller: Controller, mpi: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_MPI_TYPE", mpi)
    settings = GateSettings(
        task.read("srun", FIRST), controller, str(tmp_path), ("", ""), (0, ""), False
    )
    text = world_messages.mismatch(settings, "Horovod", 1, 0, 4)
    assert "rank 0@n2: 4 ranks were started, but Horovod has world size 1" in text
    assert remedy in text


def test_message_for_another_launcher(tmp_path: Path) -> None:
    env = {f"OMPI_COMM_WORLD_{name}": "1" for name in ("RANK", "LOCAL_RANK", "LOCAL_SIZE")}
    me = task.read("mpirun", {**env, "OMPI_COMM_WORLD_SIZE": "4"})
    settings = GateSettings(
        replace(me, local_rank=0), Controller.MPI, str(tmp_path), ("", ""), (0, ""), False
    )
    text = world_messages.mismatch(settings, "Horovod", 1, 0, 4)
    assert "does not work with the mpirun that started it" in text
    assert "--launcher srun" in text


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "no process group was initialized after 2 min"),
        (ReportState.CALLED, "waits for the other ranks, after 2 min in torch.distributed"),
        (ReportState.FORMED, ""),
    ],
)
def test_a_late_world_is_told_once_while_the_trainer_runs(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: ReportState | None,
    said: str,
) -> None:
    settings = GateSettings(task.read("srun", FIRST), Controller.NONE, "", ("", ""), (0, ""), False)
    inbox = reports.Inbox()
    if state:
        reports.tell(inbox.name, inbox.token, "torch.distributed", state)
        reports.tell(inbox.name, "00" * reports.TOKEN, "mpi4py", ReportState.WRONG)
    inbox.read()
    watch = world_watch.WorldWatch(settings, inbox)
    watch.poll()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(watch, "began", watch.began - world_watch.SECONDS_TO_A_WORLD)
    watch.poll()
    watch.poll()
    out = capsys.readouterr().out
    assert said in out
    assert out.count("rank 0@n2") == bool(said)
    assert not inbox.wrong


NODE = trainer_command.Node(1, 2, 4, "10.0.0.1", 23456, "/runs/t-1/logs/agent")


@pytest.mark.parametrize(
    ("agent", "trainer", "expected"),
    [
        ("torchrun", ["/a b/t.py", "$x"], ["--nnodes=2", "--nproc-per-node=4", "/a b/t.py", "$x"]),
        ("torchrun", ["-m", "recipes.t"], ["--node-rank=1", "-m", "recipes.t"]),
        ("torchrun", ["bash", "t.sh"], ["--master-port=23456", "--no-python", "bash"]),
        ("accelerate", ["-m", "pkg"], ["--num_processes=8", "--machine_rank=1", "--module", "pkg"]),
        ("accelerate", ["bash", "t.sh"], ["--main_process_ip=10.0.0.1", "--no_python", "bash"]),
        ("deepspeed", ["/t.py"], ["--node_rank=1", "--master_port=23456", "/t.py"]),
    ],
)
def test_commands_of_launchers(agent: str, trainer: list[str], expected: list[str]) -> None:
    found = trainer_command.AGENTS[agent](NODE, trainer)
    assert [word for word in found if word in expected] == expected
    assert found[-1] == trainer[-1]


def test_deepspeed_is_not_taken_from_the_current_folder(tmp_path: Path) -> None:
    """Others may write in it, such as in a shared scratch folder."""
    for name in ("here", "library"):
        package = tmp_path / name / "deepspeed" / "launcher"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        (package / "__init__.py").touch()
        (package / "launch.py").write_text(f"import sys\nprint('{name}', sys.argv[-1])\n")
    (tmp_path / "here" / "runpy.py").write_text("print('runpy of the current folder')\n")
    # From Python 3.11 on runpy is frozen into it; older ones look for it on the path too.
    older = ("-X", "frozen_modules=off")
    done = subprocess.run(
        [sys.executable, *older, *trainer_command.deepspeed(NODE, ["/t.py"])[1:]],
        cwd=tmp_path / "here",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "library")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "library /t.py\n", done.stderr


# Starts as many workers as torchrun would, with some of the variables that it sets.
TORCHRUN = """#!{python}
import os, subprocess, sys
count = int(next(w for w in sys.argv if w.startswith("--nproc-per-node=")).partition("=")[2])
nodes = int(next(w for w in sys.argv if w.startswith("--nnodes=")).partition("=")[2])
node = int(next(w for w in sys.argv if w.startswith("--node-rank=")).partition("=")[2])
env = dict(os.environ, TORCHELASTIC_RUN_ID="1", LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="x",
           GROUP_WORLD_SIZE=str(nodes), WORLD_SIZE=str(nodes * count))
command = [sys.executable, "-u", sys.argv[-1]]
ranks = range(node * count, (node + 1) * count)
started = [subprocess.Popen(command, env=dict(env, RANK=str(rank))) for rank in ranks]
sys.exit(max(agent.wait() for agent in started) and 1)
"""


def run_under_torchrun(tmp_path: Path, trainer: str, workers: int) -> tuple[int, str]:
    torchrun = program(tmp_path / "bin" / "torchrun", TORCHRUN.format(python=sys.executable))
    path = f"{torchrun.parent}:{os.environ['PATH']}"
    options = ("--agent", "torchrun", "--workers", str(workers))
    return run(tmp_path, trainer, *options, PATH=path)


@pytest.mark.parametrize(
    ("workers", "trainer", "code", "said"),
    [
        (2, TORCH.format(""), 0, "one world of 4 ranks"),
        (2,
         "import os\nif os.environ['RANK'] == '0':\n  " + TORCH.format("").replace("\n", "\n  "),
         82, "created no process group of the 4 ranks"),
        (1, "raise ValueError('boom')", 1, "ValueError: boom"),
    ],
)  # fmt: skip
def test_ranks_of_a_launcher_do_not_leave_without_a_world(
    tmp_path: Path, workers: int, trainer: str, code: int, said: str
) -> None:
    found, out = run_under_torchrun(tmp_path, trainer, workers)
    assert found == code, out
    assert said in out
    assert ("created no process group" in out) == (code == 82)


def test_lines_of_a_launchers_ranks_stay_whole(tmp_path: Path) -> None:
    """They share a pipe, and torchrun starts them with `python -u`, which writes word by word."""
    late = "class Late:\n    def __str__(self): time.sleep(0.05); return 'words'\n"
    said = "for stream in [sys.stdout, sys.stderr] * 3: print('some', Late(), file=stream)\n"
    code, out = run_under_torchrun(
        tmp_path, f"import sys, time\n{TORCH.format('')}{late}{said}", workers=2
    )
    assert code == 0, out
    assert re.findall(r"\| (.*some.*)", out) == ["some words"] * 24
