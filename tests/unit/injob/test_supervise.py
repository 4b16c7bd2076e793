"""The shim that runs in the image: place in the world, rendezvous, gate, supervision."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import runners.injob.rank
from runners.contract import failure_kinds as kinds
from runners.contract.exit_codes import EXIT_WORLD_SIZE
from runners.contract.failure_kinds import FailureKind
from runners.core import job_record
from runners.explain import read_facts
from runners.injob import problems, processes, task
from runners.injob.rank import failures, reports, supervise
from runners.injob.rank.output import OutputLabeller

from . import shim
from .srun_environment import FIRST

RANK = Path(runners.injob.rank.__file__).parent


def test_failure_names_the_error_and_the_signal() -> None:
    tail = ["Traceback (most recent call last):", "ValueError: boom", "bye"]
    assert problems.of_process(1, tail).text == "exit code 1: ValueError: boom"
    assert problems.of_process(1, tail).fields == {"error": "ValueError: boom", "guessed": True}
    coloured = ["\x1b[31mValueError\x1b[0m: boom"]
    assert problems.of_process(1, coloured).text == "exit code 1: ValueError: boom"
    assert problems.of_process(137, tail).text == "killed by signal 9 (SIGKILL)"
    assert problems.of_process(7, ["nothing of use"]).text == "exit code 7"
    assert not problems.of_process(3, ["error: no data"]).fields["guessed"]


def test_an_exception_without_words_is_named() -> None:
    assert problems.of_exception(1, StopIteration(), []).text == "exit code 1: StopIteration"


def test_a_long_error_is_cut_between_words() -> None:
    text = problems.of_exit(1, "ValueError: " + "some words " * 50).text
    assert text.endswith(("some ...", "words ..."))
    assert len(text) < problems.LONGEST + len("exit code 1: ") + 1


def test_every_record_has_the_fields_of_its_kind() -> None:
    made = [problems.of_process(137, []), problems.of_exit(1, "x"), supervise.IN_INIT]
    made += [problems.of_exception(1, ValueError("x"), ["x"]), supervise.ENDED]
    for problem in made:
        assert set(problem.fields) == set(kinds.KINDS[problem.kind])


def test_one_task_of_a_node_speaks_for_it_whichever_comes_first(tmp_path: Path) -> None:
    me = task.read("srun", FIRST)
    asked = [replace(me, host=host, local_rank=rank) for host in ("n1", "n2") for rank in (1, 0)]
    assert [failures.speaks(rank_task, str(tmp_path)) for rank_task in asked] == [True, False] * 2
    nowhere = str(tmp_path / "file")
    Path(nowhere).touch()
    assert [failures.speaks(rank_task, nowhere) for rank_task in asked] == [False, True] * 2


def test_no_failure_is_on_record_before_the_node_has_been_spoken_for(tmp_path: Path) -> None:
    """Else the launcher ends the one that speaks before it has said cause and remedy."""
    first = task.read("srun", FIRST)
    second, run_dir = replace(first, rank=1, local_rank=1), str(tmp_path)
    assert failures.speaks(first, run_dir)
    other = threading.Thread(target=failures.record, args=(second, 1, supervise.IN_INIT, run_dir))
    other.start()
    other.join(0.2)
    assert not failures.recorded(second, run_dir)
    failures.record(first, 1, supervise.IN_INIT, run_dir)
    other.join()
    assert failures.recorded(second, run_dir)


def test_failures_of_others_are_seen_in_a_folder_of_any_name(tmp_path: Path) -> None:
    me, run_dir = task.read("srun", FIRST), str(tmp_path / "exp[1] *")
    failures.record(me, 1, problems.of_exit(1), run_dir)
    assert not failures.of_others(me, run_dir)
    assert failures.of_others(replace(me, rank=me.rank + 1), run_dir)


def test_one_that_dies_before_it_speaks_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "SECONDS_TO_SPEAK", 0.05)
    first = task.read("srun", FIRST)
    assert failures.speaks(first, str(tmp_path))
    second = replace(first, rank=1, local_rank=1)
    assert failures.record(second, 1, supervise.IN_INIT, str(tmp_path))


HOROVOD = """
class HorovodBasics:
    def init(self, comm=None):
        if comm == 'die': import os; os._exit(1)
    def size(self): return {size}
    def rank(self): import os; return int(os.environ["HOROVOD_RANK"])
"""


def run_shim(
    tmp_path: Path, trainer: str, *args: str, tasks: int = 2, size: int = 2
) -> tuple[int, str]:
    """Run the real shim around a trainer, with a stand-in for Horovod that says it has `size`."""
    package = tmp_path / "horovod" / "common"
    package.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "basics.py").write_text(HOROVOD.format(size=size))
    (tmp_path / "train.py").write_text(trainer)
    words = (str(tmp_path / "train.py"), *args)
    return shim.run(tmp_path, "--tasks", str(tasks), "--controller", "gloo", trainer=words)


INIT = "from horovod.common.basics import HorovodBasics\nHorovodBasics().init()\n"


def test_shim_passes_arguments_and_labels_lines(tmp_path: Path) -> None:
    hostile = ["a b", "$HOME", "x;y", "é,:", "--", "-n"]
    code, out = run_shim(tmp_path, INIT + "import sys; print(sys.argv[1:])", *hostile)
    host = os.uname().nodename
    assert code == 0
    lines = [f"{rank}@{host} | {hostile}" for rank in (0, 1)]
    lines += [
        "runner: one world of 2 ranks (Horovod)",
        "runner: weights not checked: no optimizer of PyTorch or Keras made a step; what a script "
        "does to its weights itself is not seen",
    ]
    before_use, _, _ = out.partition("runner: what the job used")
    assert sorted(before_use.splitlines()) == sorted(lines)


def test_shim_exits_with_the_trainers_code(tmp_path: Path) -> None:
    assert run_shim(tmp_path, f"{INIT}raise SystemExit(7)", tasks=1, size=1)[0] == 7


def test_compiled_code_is_kept_in_the_runs_folder_or_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    show = "import os; print([os.environ[n + '_CACHE_DIR'] for n in ('TORCHINDUCTOR', 'TRITON')])"
    _, out = run_shim(tmp_path, INIT + show)
    assert out.count(f"['{tmp_path}/code/compiled', '/mine']") == 2


def test_shim_writes_the_trainers_errors_to_both(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\nprint('one')\nprint('two', file=sys.stderr, flush=True)\n"
        "os.write(1, b'end\\n')\nos.write(2, b'three\\nfour')\nraise ValueError('boom')"
    )
    words = shim.command(tmp_path, *shim.TWO, "--tasks", "1", "--errors")
    done = subprocess.run(words, capture_output=True, timeout=30, text=True)
    label = f"0@{os.uname().nodename} | "
    errors = done.stderr.splitlines()
    assert errors[:2] == [f"{label}two", f"{label}three"]
    assert errors[2].startswith(f"{label}fourTraceback")
    assert errors[-1] == f"{label}ValueError: boom"
    said = f"{label}runner: rank {label[:-3]} failed: exit code 1: ValueError: boom"
    everything = [f"{label}one", f"{label}end", *errors, said]
    assert sorted(done.stdout.splitlines()) == sorted(everything)


def test_shim_stops_a_world_of_the_wrong_size(tmp_path: Path) -> None:
    after = "print('trained alone')"
    code, out = run_shim(
        tmp_path, f"try:\n  {INIT.replace(chr(10), '; ')}{after}\nfinally: pass", size=1
    )
    assert code == EXIT_WORLD_SIZE
    assert "world-size mismatch" in out
    assert "trained alone" not in out
    # The other was ended, or was as fast
    blamed = read_facts.failures(job_record.JobPaths(tmp_path))[0]
    assert (blamed.exit_code, blamed.kind) == (EXIT_WORLD_SIZE, FailureKind.WORLD_SIZE)
    assert blamed.fields == {"tasks": 2, "world": 1, "framework": "Horovod"}


def test_shim_ends_the_others_when_one_fails(tmp_path: Path) -> None:
    trainer = INIT + (
        "import os, sys, time\n"
        "if os.environ['HOROVOD_RANK'] == '1': os.kill(os.getpid(), 9)\n"
        "time.sleep(60)"
    )
    code, out = run_shim(tmp_path, trainer)
    assert code == 137
    assert "runner: rank 1@" in out
    assert "signal 9 (SIGKILL)" in out


def test_shim_explains_an_end_within_init(tmp_path: Path) -> None:
    """MPI_Init ends the process by itself, so nothing in it can say why."""
    trainer = INIT.replace("HorovodBasics().init()", "HorovodBasics().init(comm='die')")
    code, out = run_shim(tmp_path, trainer, tasks=1, size=1)
    assert code == EXIT_WORLD_SIZE
    assert "no process group on rank 0@" in out
    assert "likely cause:" in out


def test_a_part_of_the_ranks_is_not_the_world(tmp_path: Path) -> None:
    """hvd.init(comm=[rank]) makes as many worlds of one."""
    trainer = INIT.replace("init()", "init(comm=[0])")
    code, out = run_shim(tmp_path, trainer, size=1)
    assert code == EXIT_WORLD_SIZE, out
    assert "try: hvd.init() without comm" in out


def read_failure(tmp_path: Path, rank: int = 0) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((tmp_path / "failures" / f"rank-{rank}.json").read_text())
    return record


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        ("sys.exit(7)", 7, "exit code 7"),
        ("sys.exit('no data')", 1, "exit code 1: no data"),
        ("raise StopIteration('a\\nb')", 1, "exit code 1: StopIteration: a"),
    ],
)
def test_a_failure_is_recorded_before_the_others_can_react(
    tmp_path: Path, end: str, code: int, message: str
) -> None:
    """On the way out Horovod tells the other ranks, and the launcher then ends this one."""
    react = "import atexit, os, sys; atexit.register(os.kill, os.getpid(), 15)\n"
    run_shim(tmp_path, INIT + react + end, tasks=1, size=1)
    record = read_failure(tmp_path)
    assert (record["exit_code"], record["message"].strip()) == (code, message)


def test_the_trainers_traceback_is_shown_and_recorded_whole_and_no_other(tmp_path: Path) -> None:
    trainer = INIT + "def inner():\n    raise ValueError('boom')\ninner()"
    code, out = run_shim(tmp_path, trainer, tasks=1, size=1)
    assert code == 1
    assert "runners" not in out.split("failed:")[0]
    assert "runpy" not in out
    record = read_failure(tmp_path)
    assert record["traceback"][0] == "Traceback (most recent call last):"
    assert record["traceback"][-1] == "ValueError: boom"
    assert [line for line in record["traceback"] if "in inner" in line]
    assert all(f"| {line}" in out for line in record["traceback"])


def test_a_rank_that_lost_its_peer_leaves_the_word_to_it(tmp_path: Path) -> None:
    trainer = INIT + (
        "import os, time\n"
        "class HorovodInternalError(Exception): pass\n"
        "if os.environ['HOROVOD_RANK'] == '1': raise ValueError('boom')\n"
        "time.sleep(0.5)\n"
        "raise HorovodInternalError('Connection closed by peer')"
    )
    out = run_shim(tmp_path, "import signal; signal.signal(15, signal.SIG_IGN)\n" + trainer)[1]
    assert out.count("Traceback") == 1
    assert "ValueError: boom" in out


def test_without_another_failure_the_traceback_is_shown(tmp_path: Path) -> None:
    trainer = INIT + (
        "class HorovodInternalError(Exception): pass\n"
        "raise HorovodInternalError('Mismatched allreduce tensor shapes')"
    )
    assert "Traceback" in run_shim(tmp_path, trainer, tasks=1, size=1)[1]


def test_the_last_lines_of_a_rank_that_ends_on_a_signal_are_kept(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """They may come between two looks, with the signal before them and the end behind them."""
    (output, trainer), (ended, wakeup) = os.pipe(), os.pipe()
    os.write(wakeup, bytes([signal.SIGUSR1]))
    begun: list[bool] = []

    def poll() -> None:
        if not begun:
            os.write(trainer, b"saved\n")
            os.write(wakeup, bytes([signal.SIGCHLD]))
        begun.append(True)

    port = SimpleNamespace(needed=False)
    labeller = OutputLabeller("0@n1", [output])
    tail = labeller.pump(ended, reports.Inbox(), port, [poll])  # type: ignore[arg-type]
    assert tail == ["saved"]
    assert capfd.readouterr().out == "0@n1 | saved\n"


def test_a_tree_of_processes_is_ended() -> None:
    words = "sh -c 'sleep 60 & echo; wait' & echo; wait"
    root = subprocess.Popen(["sh", "-c", words], stdout=subprocess.PIPE)
    assert root.stdout is not None
    assert [root.stdout.readline() for _ in range(2)] == [b"\n"] * 2
    assert len([*processes.tree(root.pid)]) == 3
    processes.end_tree(root.pid)
    assert root.wait() == -signal.SIGKILL
    assert root.stdout.read() == b"", "nobody has it open any more"


def test_what_runs_in_images_is_python_of_2019() -> None:
    """Python 3.8 cannot subscript these when it loads a module; annotations are not evaluated."""
    for file in RANK.parent.rglob("*.py"):
        text = file.read_text()
        abstract = re.findall(r"^from collections\.abc import (.+)$", text, re.MULTILINE)
        names = ["tuple", "list", "dict", "set", "type", *", ".join(abstract).split(", ")]
        aliases = re.findall(r"^\w+ = (\w+)\[", text, re.MULTILINE)
        assert not set(aliases) & set(names), file
