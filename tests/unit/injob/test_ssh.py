"""The ssh in a container: its arguments, its way to another node, and its end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners import injob
from runners.contract import parts
from runners.injob import ssh

HOSTILE = ["a b", "it's", "$HOME", "`id`", ";", "new\nline", "ü", "a,b:c"]
# Leaves out the options, as srun would, and writes them down with the environment.
SRUN = """\
#!/bin/bash
while [ "$1" != bash ]; do printf '%s\\n' "$1" >> {folder}/options; shift; done
env > {folder}/environment
exec "$@"
"""


@pytest.mark.parametrize(
    ("typed", "host", "command"),
    [
        (["n2", "true"], "n2", "true"),
        (["-o", "X=y", "-oX=y", "n2", "-p", "22", "-i", "key", "ls", "-l"], "n2", "ls -l"),
        (["-xq", "-p22", "ada@n2", "a", "b c"], "n2", "a b c"),
        (["-qp", "22", "n2"], "n2", ""),
        (["--", "n2", "true"], "n2", "true"),
        (["-2", "-a", "-x", "-lada", "n2", "true"], "n2", "true"),
    ],
)
def test_arguments_are_read_as_ssh_does(typed: list[str], host: str, command: str) -> None:
    assert ssh.parse(typed)[:2] == (host, command)


@pytest.mark.parametrize("typed", [[], ["-x"], ["-o"], ["-Z", "n2"]])
def test_odd_arguments_are_answered_as_ssh_does(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ssh.ask(["/nowhere", *typed]) == ssh.SSH_FAILED
    assert capsys.readouterr().err == "ssh: usage: ssh [OPTION]... NODE [COMMAND...]\n"


def around(folder: Path, *command: str, runtime: str = "apptainer") -> list[str]:
    """Return the command line that runs a command beside which `ssh n2` works."""
    (folder / "srun").write_text(SRUN.format(folder=shlex.quote(str(folder))))
    (folder / "srun").chmod(0o700)
    (folder / "enter").write_text('exec "$@"\n')
    words = [sys.executable, injob.HERE, parts.SSH_AROUND, runtime, "n1,n2.cluster"]
    return [*words, str(folder / "enter"), str(folder / "srun"), "--overlap", "--", *command]


def ran(folder: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell beside it."""
    env = {**os.environ, "SLURM_JOB_ID": "42", **more}
    argv = around(folder, "bash", "-c", script)
    return subprocess.run(argv, env=env, text=True, capture_output=True, timeout=60, check=False)


def test_a_command_runs_on_the_other_node(tmp_path: Path) -> None:
    done = ran(tmp_path, "echo in | ssh -o A=b n2 'cat; echo err >&2; exit 7'; echo $?")
    assert (done.stdout, done.stderr) == ("in\n7\n", "err\n")
    options = (tmp_path / "options").read_text().split()
    assert options == ["--overlap", "--quiet", "--jobid=42", "--nodelist=n2.cluster"]


def test_hostile_words_stay_what_they_are(tmp_path: Path) -> None:
    echo = "import json, sys; print(json.dumps(sys.argv[1:]))"
    far = shlex.join([sys.executable, "-c", echo, *HOSTILE])
    done = ran(tmp_path, f"ssh n2 {shlex.quote(far)}")
    assert json.loads(done.stdout) == HOSTILE


def test_a_host_outside_of_the_job_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "ssh").symlink_to("/bin/false")
    done = ran(tmp_path, 'ssh "ada@n 9;" true; echo $?', PATH=f"{other}:{os.environ['PATH']}")
    assert done.stdout == "255\n"
    assert done.stderr == (
        "ssh: n 9; is not among the nodes of this job: n1, n2.cluster\n"
        f"  to hosts outside of the job: {other}/ssh\n"
    )
    assert not (tmp_path / "options").exists()


def test_nobody_else_can_use_it_and_it_ends_with_its_command(tmp_path: Path) -> None:
    done = ran(tmp_path, "which ssh; stat -c %a $(dirname $(dirname $(which ssh))); exit 3")
    program, mode = done.stdout.split()
    assert done.returncode == 3
    assert mode == "700"
    assert not Path(program).exists()


def test_a_copy_of_it_says_that_its_job_has_ended(tmp_path: Path) -> None:
    ran(tmp_path, f"cp $(which ssh) {tmp_path}/kept")
    done = subprocess.run(
        [str(tmp_path / "kept"), "n2", "true"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 255
    assert "the job, or the shell, that it belongs to has ended" in done.stderr


def sleeps(folder: Path) -> bool:
    """Whether the command on the other node still runs."""
    pid = int((folder / "pid").read_text())
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("ending", ["kill $! && wait", "true"])
def test_what_runs_there_ends_with_ssh_and_with_the_shell(tmp_path: Path, ending: str) -> None:
    far = shlex.quote(f"echo $$ > {tmp_path}/pid; exec sleep 600")
    begun = f"until [ -s {tmp_path}/pid ]; do sleep 0.02; done"
    ran(tmp_path, f"ssh n2 {far} & {begun}; {ending}")
    deadline = time.monotonic() + 10
    while sleeps(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_step_starts_once_the_command_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    starter = ssh.StepStarter(["n2"], "enter", ["sh", "-c", "touch started"])
    starter.listen("socket")
    starter.end()
    assert ssh.ask(["socket", "n2", "true"]) == ssh.SSH_FAILED
    assert ssh.ENDED in capsys.readouterr().err
    assert not Path("started").exists()


def test_a_signal_goes_on_to_the_command(tmp_path: Path) -> None:
    script = f"trap 'exit 5' TERM; echo > {tmp_path}/begun; while :; do sleep 0.05; done"
    with subprocess.Popen(around(tmp_path, "bash", "-c", script)) as process:
        deadline = time.monotonic() + 30
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 5


def test_the_container_gets_it_and_the_steps_do_not(tmp_path: Path) -> None:
    given = {
        "APPTAINER_BIND": "/data",
        "APPTAINERENV_PREPEND_PATH": "/opt/own",
        "SLURM_NTASKS": "4",
        "SLURM_CONF": "/etc/conf",
    }
    script = "echo $APPTAINER_BIND $APPTAINERENV_PREPEND_PATH; ssh n2 true"
    bind, path = ran(tmp_path, script, **given).stdout.split()
    assert bind.startswith("/data,/tmp/runner-")
    assert path == f"{bind.partition(',')[2]}/bin:/opt/own"
    there = (tmp_path / "environment").read_text().splitlines()
    assert {"SLURM_CONF=/etc/conf", "APPTAINER_BIND=/data"} <= set(there)
    assert not [line for line in there if line.startswith("SLURM_NTASKS")]
