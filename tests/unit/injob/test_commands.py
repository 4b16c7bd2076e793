"""--profile-with: what may be asked, what goes into the container, and the rank under its tool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.contract.rank_command import parse_ranks
from runners.settings import profiling

from .. import sentences
from ..programs import program
from .shim import TWO, command

HOSTILE = ["a b", "$HOME", "x;y", "'\"", "{output} {rank}", "--", "é"]
# It writes what it was given, and starts the trainer without passing on signals.
TOOL = """#!{python}
import json, signal, subprocess, sys
output, words = sys.argv[2], sys.argv[sys.argv.index("--") + 1:]
json.dump(sys.argv[1:], open(output + ".json", "w"))
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, frame: open(output + ".signal", "w"))
sys.exit(subprocess.run(words).returncode)
"""


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    return program(tmp_path / "a tool" / "bin" / "tool", TOOL.format(python=sys.executable))


def shim(tmp_path: Path, ranks: str, with_: str, trainer: str, *arguments: str) -> list[str]:
    (tmp_path / "train.py").write_text(trainer)
    options = (*TWO, "--profile-with", with_, "--profile-ranks", ranks)
    return command(tmp_path, *options, trainer=(str(tmp_path / "train.py"), *arguments))


@pytest.mark.parametrize(
    ("text", "expected"), [("0", {0}), ("0,2-3", {0, 2, 3}), ("all", None), ("7-7", {7})]
)
def test_ranks_are_read(text: str, expected: set[int] | None) -> None:
    chosen = parse_ranks(text)
    assert (None if chosen is None else {rank for part in chosen for rank in part}) == expected


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "0,,1", "0;1"])
def test_what_are_no_ranks_is_refused(text: str) -> None:
    with sentences.raises("profile-ranks-malformed", "--profile-ranks 0,2-3"):
        profiling.read("tool {output}", text or " ")


@pytest.mark.parametrize(
    ("command", "ranks", "id"),
    [
        ("nsys profile", None, "profiler-output-missing"),
        ("{output}", None, "profiler-output-missing"),
        ("nsys 'profile {output}", None, "profiler-quoting"),
        ("", None, "profiler-malformed"),
        ("nsys {output}\n#SBATCH -n9", None, "profiler-malformed"),
        ("/etc/passwd {output}", None, "profiler-not-executable"),
        ("/etc {output}", None, "profiler-not-executable"),
        (None, "0", "profile-ranks-alone"),
    ],
)
def test_what_cannot_run_is_refused(command: str | None, ranks: str | None, id: str) -> None:
    with sentences.raises(id):
        profiling.read(command, ranks)


def test_a_tool_elsewhere_is_mounted_with_what_lies_beside_it(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tool.parent))
    asked = profiling.read("tool -o {output}", None)
    assert asked is not None
    assert (asked.tool, asked.ranks) == (str(tool), "0")
    assert asked.folders == (str(tool.parent.parent),)
    link = tool.parents[2] / "link"
    link.symlink_to(tool)
    asked = profiling.read(f"'{link}' -o {{output}}", "all")
    assert asked is not None
    assert asked.folders == (str(link.parent), str(tool.parent.parent))
    asked = profiling.read("in-the-image {output}", "1")
    assert asked is not None
    assert (asked.tool, asked.folders) == ("", ())


def test_the_chosen_rank_runs_under_its_tool_and_words_stay_as_they_are(
    tmp_path: Path, tool: Path
) -> None:
    trainer = "import json, os, sys; print('got', json.dumps([os.environ['RANK'], sys.argv[1:]]))"
    command = shim(tmp_path, "1", f"'{tool}' -o {{output}} '$(touch y)' --", trainer, *HOSTILE)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    got = [
        json.loads(line.partition("got ")[2]) for line in done.stdout.splitlines() if "got " in line
    ]
    assert sorted(got) == [["0", HOSTILE], ["1", HOSTILE]]
    (written,) = (tmp_path / "profile").iterdir()
    assert written.name == "rank-1.json"
    words = json.loads(written.read_text())
    assert words[:4] == ["-o", str(tmp_path / "profile" / "rank-1"), "$(touch y)", "--"]
    assert words[-len(HOSTILE) :] == HOSTILE
    assert not (tmp_path / "y").exists()


def test_a_tool_that_is_not_there_ends_the_rank_before_the_training(tmp_path: Path) -> None:
    command = shim(tmp_path, "all", "no-such-tool {output}", "print('trained')")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 127
    assert "trained" not in done.stdout
    host = os.uname().nodename
    said = f"--profile-with: no no-such-tool on the PATH of the image on {host}"
    assert said in done.stdout
    records = [json.loads(path.read_text()) for path in (tmp_path / "failures").glob("rank-*.json")]
    assert said in {record.get("error", "").partition("error: ")[2] for record in records}


def test_signals_reach_the_trainer_and_not_its_profiler(tmp_path: Path, tool: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    trainer = (
        "import os, pathlib, signal, sys, time\n"
        f"saved = pathlib.Path({str(saved)!r})\n"
        "def save(*_):\n"
        "    os.write(1, b'saved\\n')  # print may be interrupted in its own middle\n"
        "    (saved / str(os.getpid())).touch()\n"
        "    while len(os.listdir(saved)) < 2:  # the first to end would end the other\n"
        "        time.sleep(0.01)\n"
        "    sys.exit(91)\n"
        "signal.signal(signal.SIGUSR1, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(30)\n"
    )
    command = shim(tmp_path, "all", f"'{tool}' -o {{output}} --", trainer)
    running: Any = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ready = 0
    while ready < 2:
        ready += "ready" in running.stdout.readline()
    running.send_signal(signal.SIGUSR1)
    said = running.communicate(timeout=25)[0]
    assert said.count("| saved") == 2
    assert running.returncode == 0, "stopped early, which the job's script reads of stopped.json"
    assert (tmp_path / "stopped.json").exists()
    assert not list((tmp_path / "profile").glob("*.signal"))
