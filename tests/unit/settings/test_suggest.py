"""The commands that we offer: what was typed, as values, with the changes of a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from runners.cli import cli
from runners.cli.invocation import SettingsCommand, command_line
from runners.core import job_record
from runners.core.command_line import (
    ENVIRONMENT,
    PROJECT,
    CommandLine,
    Given,
    as_json,
    read,
    without_secret,
)
from runners.core.diagnosis import Diagnosis, refusal
from runners.core.files import read_versioned, write_versioned
from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName
from runners.core.remedy import Remedy, advice, change, command, option_words, shell_line
from runners.planning import search
from runners.settings import suggest

from .. import sentences
from ..programs import HOSTILE, program, sandbox


def typed(*words: str) -> CommandLine:
    """Return what a command line is as values; the command itself is not run."""
    found: list[CommandLine] = []
    root = click.Context(cli, info_name="runner")
    name, of, rest = cli.resolve_command(root, list(words))
    assert isinstance(of, SettingsCommand)
    with of.make_context(name, rest, parent=root) as ctx:
        found.append(command_line(ctx))
    return found[0]


@pytest.mark.parametrize(
    ("remedy", "words", "expected"),
    [
        (
            change(mpi="pmix"),
            ["launch", "--image", "a b.sif", "--mpi=pmi2", "-N", "2", "t", "--", "--mpi", "x"],
            "runner launch --mpi pmix --image 'a b.sif' --nodes 2 t -- --mpi x",
        ),
        (
            change(nodes=1, ntasks=4),
            ["plan", "-N", "2", "-np", "4", "t.py"],
            "runner launch --nodes 1 --ntasks 4 t.py",
        ),
        (change(nv=False), ["launch", "--nv", "t"], "runner launch --no-nv t"),
        (command("make", "build-gpu"), ["launch", "t"], "make build-gpu"),
        (advice("another image"), ["launch", "t"], "another image"),
        (
            change(comment="pytorch", leave_out=["mem"]),
            ["launch", "--mem", "4G", "-N2", "t"],
            "runner launch --comment pytorch --nodes 2 t",
        ),
        (
            change(partition="debug", leave_out=["qos", "comment"]),
            ["launch", "-q", "debug", "--comment", "x", "t"],
            "runner launch --partition debug t",
        ),
        (
            change(env="A=1", bind="/x"),
            ["launch", "--env", "A=2", "--env=B=3", "-B", "/y", "--env=A=4", "t"],
            "runner launch --env A=1 --bind /x --env B=3 --bind /y t",
        ),
        (
            change(nodes=1),
            ["launch", "--env", "HF_TOKEN=s3cret", "--env=KERAS_HOME=/k", "t"],
            "runner launch --nodes 1 --env HF_TOKEN --env KERAS_HOME=/k t",
        ),
        (
            change(leave_out=["bind"]),
            ["launch", "-B", "/y", "--bind=/z", "-B/x", "t"],
            "runner launch t",
        ),
        (
            change(nodes=1),
            ["launch", "-N2", "-np", "4", "--wait", "--sweep", "lr=1,2", "t"],
            "runner launch --nodes 1 --ntasks 4 --wait --sweep lr=1,2 t",
        ),
        (
            change(arguments={"--lr": 0.1, "--x": 2}),
            ["launch", "-N", "2", "t", "--", "--lr", "9", "--x=1", "-v"],
            "runner launch --nodes 2 t -- -v --lr 0.1 --x 2",
        ),
        (
            change(leave_out=["force"], srun_arg="--label"),
            ["launch", "--force", "--cycle-time-ms", "2.50", "--no-requeue", "t"],
            "runner launch --srun-arg=--label --cycle-time-ms 2.5 --no-requeue t",
        ),
        (
            change(trainer=("train.py", "--lr", "1")),
            ["launch", "--image", "a.sif", "python3", "train.py", "--", "--lr", "1"],
            "runner launch --image a.sif train.py -- --lr 1",
        ),
        (
            change(image="b.sif", first="make b"),
            ["launch", "--image", "a.sif", "t"],
            "make b && runner launch --image b.sif t",
        ),
        (
            change(controller="gloo"),
            ["doctor", "--image", "a.sif", "--job", "--mpi", "none"],
            "runner doctor --controller gloo --image a.sif --mpi none --job",
        ),
        (
            change(controller="gloo"),
            ["scale", "-N", "1,2", "--weak", "--drop", "0", "--vary", "mpi=a,b", "t"],
            "runner scale --controller gloo --nodes 1,2 --weak --drop 0 --vary mpi=a,b t",
        ),
        (
            change(time="10"),
            ["shell", "--image", "a.sif", "-t", "5", "--", "ls", "-l"],
            "runner shell --time 10 --image a.sif -- ls -l",
        ),
    ],
)
def test_a_remedy_changes_what_was_typed(remedy: Remedy, words: list[str], expected: str) -> None:
    assert suggest.text(remedy, typed(*words)) == expected


def test_what_no_option_takes_back() -> None:
    given = (
        Given("mem", "4G", ENVIRONMENT, "RUNNER_MEM"),
        Given("qos", "q", PROJECT, "runner.toml"),
    )
    before = CommandLine(settings=given, trainer="t", cwd=os.getcwd())
    without = suggest.text(change(leave_out=["mem"]), before)
    assert without == "env --unset=RUNNER_MEM runner launch t"
    told = suggest.text(change(leave_out=["qos"]), before)
    assert told == "take qos out of runner.toml; then runner launch t"
    (resolved,) = suggest.resolved([change(leave_out=["qos"])], before)
    assert resolved.kind == "advice"


def test_hostile_values_survive_in_what_is_offered(tmp_path: Path) -> None:
    folder = tmp_path / "my $HOME; work'"
    folder.mkdir()
    words = [word for text in HOSTILE for word in option_words("bind", text)]
    words += [word for text in HOSTILE for word in option_words("env", f"A{len(text)}={text}")]
    before = typed("launch", *words, "my trainer.py", "--", *HOSTILE)
    stored = read(json.loads(json.dumps(as_json(before))))
    assert stored == before
    text = "import json, os, sys\nprint(json.dumps([os.getcwd(), sys.argv[1:]]))\n"
    program(tmp_path / "runner", f"#!{sys.executable}\n{text}")
    offered = suggest.text(change(account="it's $1", cwd=str(folder)), stored)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", offered], capture_output=True, text=True, env=env)
    cwd, argv = json.loads(done.stdout)
    assert cwd == str(folder)
    assert typed(*argv).args == tuple(HOSTILE)
    assert typed(*argv).values("bind") == HOSTILE
    assert typed(*argv).values("env") == [f"A{len(text)}={text}" for text in HOSTILE]
    assert typed(*argv).text("account") == "it's $1"
    assert typed(*argv).trainer == "my trainer.py"


def test_one_line_mends_all_faults() -> None:
    before = typed("launch", "--mem", "4G", "t")
    refusals = [
        refusal("no-comment", "no comment", "", change(comment="pytorch")),
        refusal("memory", "memory", "", change(leave_out=["mem"])),
        refusal("folder", "folder", "", change(cwd="/scratch/ada")),
    ]

    def offered(refusals: list[Diagnosis]) -> list[str]:
        return [suggest.text(remedy, before) for remedy in search.combined(refusals)]

    assert offered(refusals) == ["cd /scratch/ada && runner launch --comment pytorch t"]
    assert offered(refusals[2:]) == ["cd /scratch/ada && runner launch --mem 4G t"]
    again = refusal("type", "type", "", change(comment="tensorflow"))
    assert offered([*refusals[:2], again]) == ["runner launch --comment tensorflow t"]
    others = [*refusals, refusal("image", "image", "", command("make", "build-gpu"))]
    assert "make build-gpu" in offered(others)


def test_for_programs() -> None:
    found = suggest.as_json(change(nodes=1, first="make"), typed("plan", "t"))
    assert (found["kind"], found["text"]) == ("launch", "make && runner launch --nodes 1 t")
    assert (found["options"], found["before"]) == ((("nodes", 1),), "make")
    for_shell = suggest.as_json(shell_line("a | b"), typed("plan", "t"))
    assert for_shell == {"kind": "command", "text": "a | b"}
    assert "does" not in found


def test_what_a_remedy_does_is_kept_where_it_is_said() -> None:
    remedy, line = replace(change(nodes=1), does="on one node"), typed("plan", "t")
    (resolved,) = suggest.resolved([remedy], line)
    assert (resolved.text, resolved.does) == ("runner launch --nodes 1 t", "on one node")
    for given in (remedy, resolved):
        assert suggest.as_json(given, line)["does"] == "on one node"


def test_a_run_of_another_runner(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    old = {"id": "7", "name": "t", "scheduler": "slurm", "log": "l", "submitted": 1.0}
    Job("7", "t", SchedulerName.SLURM, "l", 1.0, typed=typed("launch", "-N2", "t")).save(paths)
    assert job_record.load(paths).typed.text("nodes") == "2"
    write_versioned(paths.job, 99, old)
    with sentences.raises("form-of-other-version"):
        job_record.load(paths)
    assert read_versioned(tmp_path / "absent", 1) is None


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("HF_TOKEN=a=b\nc", "HF_TOKEN"),
        ("--env=WANDB_API_KEY=x", "--env=WANDB_API_KEY"),
        ("TOKENIZERS_PARALLELISM=false", "TOKENIZERS_PARALLELISM=false"),
        ("KERAS_HOME=/keras", "KERAS_HOME=/keras"),
        ("HF_TOKEN", "HF_TOKEN"),
    ],
)
def test_a_secret_is_shown_by_its_name(word: str, shown: str) -> None:
    assert without_secret(word) == shown


def test_who_types_a_secret_is_told_how_not_to(tmp_path: Path) -> None:
    sandbox(tmp_path / "sandbox", {"horovod.version": "0.28.1"})
    words = ["launch", "--scheduler", "slurm", "--image", "sandbox", "--dry-run", "torch_mnist"]
    argv = [sys.executable, "-m", "runners", *words[:1], "--env", "HF_TOKEN=s3cret", *words[1:]]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "all users of this machine see the value of HF_TOKEN" in done.stderr
    assert "--env HF_TOKEN" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def test_secrets_on_the_command_line_are_named_without_their_values() -> None:
    given = ("MY_TOKEN=abc", "COLOUR=blue", "API_KEY", "PASSWORD=a=b")
    line = CommandLine(settings=tuple(Given("env", variable) for variable in given))
    assert line.secrets == ["MY_TOKEN", "PASSWORD"]
