"""Getting inside: a shell on a node, a command in a running job, JupyterLab, TensorBoard."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from runners.core.job_record import JOB_FORM
from tests import documents

from .conftest import IMAGE, UNPACKED, Done, Login, ended, on_cluster, succeeded
from .places import BARE
from .terminal import CTRL_C, terminal

SLEEP = "import time\nprint('AWAKE', flush=True)\ntime.sleep(600)"
ODD = ["a b", "it's", "$HOME", "`id`", "*", "", "new\nline"]
# What another user of the node sees of ada's processes, and of the folder of her run.
OTHER = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]
PEEP = """
cd /  # find wants to come back to where it began
{{
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'
find {folder} /tmp -type f -readable -exec cat {{}} +
ls -A {folder}/private /tmp/runner-*
}} 2>&1 | tr -cd '[:print:]\\n'
"""
CELL = Path(__file__).with_name("cell.py")
GET = """
import sys, urllib.request, urllib.error
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *rest): return None
url, *headers = sys.argv[1:]
asked = urllib.request.Request(url, headers=dict(text.split(': ', 1) for text in headers))
try: answer = urllib.request.build_opener(Stay).open(asked, timeout=10)
except urllib.error.HTTPError as error: answer = error
except OSError as error: sys.exit(print('0 no answer:', error))
print(answer.status, dict(answer.headers).get('Set-Cookie', ''), answer.read()[:2000].decode())
"""


def get(url: str, *headers: str, node: str = "login", user: tuple[str, ...] = ()) -> str:
    """Return status, cookie and page of an address, asked on a node, by ada or by another user."""
    argv = [*(user or ("env",)), "python3", "-c", GET, url, *headers]
    return succeeded(on_cluster(argv, node=node, user="root" if user else "ada")).stdout


def session(login: Login, *words: str) -> dict[str, Any]:
    """Start a session in the browser; return where it answers."""
    facts: dict[str, Any] = json.loads(succeeded(login.runner(*words, "--json")).stdout)
    assert facts["reached"]
    return facts


def left(login: Login, node: str) -> str:
    """Return what sessions have left on a node: processes, folders in /tmp."""
    # The pattern does not match the shell that has it on its own command line.
    script = f"pgrep -a -f '{login.folder}/[r]uns/'; find /tmp -maxdepth 1 -name 'runner-*'; true"
    return on_cluster(["bash", "-c", script], node=node, user="root").stdout


def documented(start: str) -> list[str]:
    """Return the words of the documentation's command that begins so, without `runner`."""
    return shlex.split(documents.command(f"runner {start}"))[1:]


class TestExec:
    def test_a_command_joins_the_ranks(self, login: Login) -> None:
        image = f"{login.folder}/it's, my $image: 1.sif"
        login.sh(f"ln -s {IMAGE} {shlex.quote(image)}; mkdir data; echo hello > data/x")
        trainer = login.write("train.py", SLEEP)
        words = ["launch", "--image", image, "-N", "2", "--data", "data", "--env", "ODD=a, b"]
        id = login.runner(*words, "--parsable", trainer).stdout.strip()
        login.sh("until grep -q AWAKE runs/train-1/logs/job.log; do sleep 0.2; done")
        within(login, id)
        on_nodes(login, id)
        ask_after_the_end(login, id)


def within(login: Login, id: str) -> None:
    """The image, the mounts and variables of the ranks; arguments, input and codes unchanged."""

    def run(*words: str) -> Done:
        return login.runner("exec", id, "--", *words)

    see = "import horovod, os; print(open('/data/x').read(), os.environ['ODD'], os.getcwd())"
    assert run("python3", "-c", see).stdout == f"hello\n a, b {login.folder}\n"
    echo = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert json.loads(run("python3", "-c", echo, *ODD).stdout) == ODD
    assert login.sh(f"echo input | runner exec {id} cat") == "input\n"
    assert run("bash", "-c", "exit 7").returncode == 7
    assert run("bash", "-c", "kill -9 $$").returncode == 137
    assert re.match(r"\d+\.\d+", login.runner(*documented("exec .*torch.__version__")).stdout)
    with terminal(login, "runner", *documented("exec train-1$")) as screen:
        screen.see("Apptainer> ")
        screen.type("tty; hostname; exit 5\n")
        screen.see("/dev/pts/")
        screen.see("n1")
        assert screen.end() == 5


def on_nodes(login: Login, id: str) -> None:
    """Nodes are chosen, each is named where there are several, others are refused."""
    done = login.runner("exec", "--all", id, "--", "bash", "-c", "hostname; echo bad >&2; exit 3")
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == ["n1 | n1", "n2 | n2"]
    assert {"n1 | bad", "n2 | bad"} <= set(done.stderr.splitlines())
    done = login.runner(*documented("exec --all"))
    assert all(line.startswith(("n1 | ", "n2 | ")) for line in done.stdout.splitlines())
    host = ["bash", "-c", "hostname; ls -d /.singularity.d"]
    done = login.runner("exec", "--host", "-w", "n2", id, "--", *host)
    assert (done.stdout, done.returncode) == ("n2\n", 2)
    done = login.runner("exec", "-w", "n2,n9", id, "--", "true")
    ended(done, 2, "n9 is not among the job's nodes", "it runs on n1, n2")
    succeeded(login.runner("exec", "-w", "n[1-2]", id, "--", "true"))


def ask_after_the_end(login: Login, id: str) -> None:
    """A job that has ended has no inside."""
    login.runner("cancel", id)
    done = login.runner("exec", id, "--", "true")
    ended(done, 80, f"job {id} does not run", f"try: runner status {id}")


TWO_BY_TWO = """
import socket, torch, horovod.torch as hvd
hvd.init()
total = int(hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum))
print(f"{hvd.rank()} of {hvd.size()} on {socket.gethostname()}: {total}", flush=True)
"""
# The same world without torch's Python.
FOUR = f"""{BARE}
import socket
hvd.init()
print(f"{{hvd.rank()}} of {{hvd.size()}} on {{socket.gethostname()}}", flush=True)
hvd.shutdown()
"""


class TestShell:
    def test_at_a_terminal(self, login: Login) -> None:
        shell = ["runner", *documented("shell .*--nodes 2 --time"), "--exclusive"]
        with terminal(login, *shell) as screen:
            id = screen.see(r"job (\d+) has its nodes").group(1)
            screen.see("Apptainer> ")
            screen.type("echo on $(hostname) in $PWD; sleep 600\n")
            screen.see(f"on n1 in {login.folder}")
            one_that_waits(login, shell)
            screen.type(CTRL_C)
            screen.type("horovodrun -np 2 bash -c 'echo of $OMPI_COMM_WORLD_SIZE'\n")
            screen.see("of 2.*\n.*of 2")
            screen.type("ssh n2\n")
            screen.see("Apptainer> ")
            screen.type("echo $(hostname) has $(tty); exit 4\n")
            screen.see("n2 has /dev/pts/")
            screen.type("echo left with $?\n")
            screen.see("left with 4")
            assert login.runner("exec", id, "-w", "n2", "--", "hostname").stdout == "n2\n"
            screen.type("exit 3\n")
            assert screen.end() == 3
        assert login.sh(f"squeue --noheader -j {id} -t running,pending || true") == ""

    def test_over_two_nodes(self, login: Login) -> None:
        login.write("train.py", FOUR)
        done = login.runner(*documented("shell .*-H "))
        told = sorted(re.findall(r"(\d) of 4 on (n\d)", done.stdout))
        assert told == [("0", "n1"), ("1", "n1"), ("2", "n2"), ("3", "n2")], done.stderr

    @pytest.mark.slow
    def test_typed_by_hand_over_two_nodes(self, login: Login) -> None:
        login.write("train.py", TWO_BY_TWO)
        shell = ["shell", *documented("shell .*-H ")[1:]]
        for start in (
            documented("shell .*-H ")[shell.index("--") + 1 :],
            ["horovodrun", "--mpi", "-np", "4", "-H", "n1:2,n2:2", "python3", "train.py"],
            ["mpirun", "-np", "4", "-H", "n1:2,n2:2", "--bind-to", "none", "python3", "train.py"],
            ["horovodrun", "-np", "4", "-H", "localhost:2,n2:2", "python3", "train.py"],
            ["horovodrun", "--gloo", "-np", "4", "-H", "n1:2,n2:2", "python3", "train.py"],
            ["horovodrun", "--gloo", "-np", "4", "-H", "localhost:2,n2:2", "python3", "train.py"],
        ):
            done = login.runner(*shell[: shell.index("--")], "--", *start)
            told = sorted(re.findall(r"(\d) of 4 on (n\d): 10", done.stdout))
            assert told == [("0", "n1"), ("1", "n1"), ("2", "n2"), ("3", "n2")], done.stderr
        for more in ((), ("--gloo",)):
            far = ["horovodrun", *more, "-np", "2", "-H", "n2:2", "python3", "train.py"]
            done = login.runner(*shell[: shell.index("--")], "--", *far)
            assert sorted(re.findall(r"(\d) of 2 on n2: 3", done.stdout)) == ["0", "1"], done.stderr
        script = "ssh n9 true; echo $?; ssh n2 'echo far; kill -9 $$'; echo $?; ssh n2 sleep 600 &"
        done = login.runner(*shell[: shell.index("--")], "--", "bash", "-c", script)
        assert done.stdout == "255\nfar\n137\n"
        assert "ssh: n9 is not among the nodes of this job: n1, n2" in done.stderr
        for node in ("n1", "n2"):
            assert left(login, node) == ""
        assert login.sh("squeue --noheader --me") == ""

    def test_in_a_script(self, login: Login) -> None:
        login.write("train.py", "import os; print('of', os.environ['OMPI_COMM_WORLD_SIZE'])")
        done = login.runner(*documented("shell .*--cpus-per-task"))
        assert done.stdout.count("of 2") == 2, done.stdout + done.stderr
        done = login.runner("shell", "--image", IMAGE, "--", "bash", "-c", "hostname; exit 7")
        assert (done.stdout, done.returncode) == ("n1\n", 7)
        done = login.runner("shell", "--image", IMAGE, "-p", "nosuch")
        ended(done, 2, "there is no partition nosuch")
        assert login.runs() == ["shell-1", "shell-2"]


def one_that_waits(login: Login, shell: list[str]) -> None:
    """While there are no nodes it says why, and Ctrl-C gives it up."""
    with terminal(login, *shell) as screen:
        id = screen.see(r"job (\d+) pending, to start at [\d:]+ or before .*Ctrl-C").group(1)
        screen.type(CTRL_C)
        assert screen.end() == 130
    assert "cancelled" in login.runner("status", id).stdout


class TestJupyter:
    def test_it_is_ours_alone(self, login: Login) -> None:
        with terminal(login, "runner", "jupyter", "--image", UNPACKED, "-w", "n1") as screen:
            screen.see("JupyterLab answers on n1, [0-9:]+ to its limit")
            ssh = screen.see(r"ssh -N -L (\d+):(\S+):\1 ada@\S+")
            port, address = ssh.groups()
            token = screen.see(rf"http://127.0.0.1:{port}/lab\?token=(\S+)").group(1)
            screen.see("for your eyes only")
            a_cell_runs(login, f"http://{address}:{port}", token)
            nobody_else_gets_in(login, f"http://n1:{port}", token)
            other = session(login, *documented("jupyter --image [^ ]*$"), "-w", "n1")
            assert other["port"] != port
            assert other["token"] != token
            leaves_and_comes_back(login, screen, token)
        assert get(f"http://{address}:{port}/").startswith("0 ")
        assert get(other["inside"].partition("?")[0]).startswith("302")
        ends_well(login, other)
        wait_until_gone(login, "n1")

    def test_an_environment_without_it(self, login: Login) -> None:
        words = ("--runtime", "none", "--image", "/opt/runner", "-w", "n2")
        done = login.runner("jupyter", *words)
        ended(done, 94, "the image has no jupyterlab", "try: runner build --from IMAGE")
        wait_until_gone(login, "n2")


def ends_well(login: Login, facts: dict[str, Any]) -> None:
    """Shut down from within the page, it ends its job, which has not failed."""
    shutdown = facts["inside"].replace("/lab?", "/api/shutdown?")
    ask = f"import urllib.request as u; u.urlopen(u.Request({shutdown!r}, b'', method='POST'))"
    succeeded(login.run("python3", "-c", ask))
    assert login.runner("wait", facts["id"]).returncode == 0


def a_cell_runs(login: Login, server: str, token: str) -> None:
    """A kernel starts, and can be a world of one."""
    login.write("cell.py", CELL.read_text())
    code = (
        "import os, horovod.torch as hvd; hvd.init(); print(hvd.size(), os.uname()[1], os.getcwd())"
    )
    words = ["apptainer", "exec", UNPACKED, "python3", "cell.py", server, code]
    out = login.sh(f"echo {token} | {shlex.join(words)}")
    assert out.splitlines()[-1] == f"1 n1 {login.folder}"


def nobody_else_gets_in(login: Login, server: str, token: str) -> None:
    """Not without the token, which no other user of the node can see; nor Slurm tells it."""
    folder = f"{login.folder}/runs/jupyter-1"
    login.sh("chmod 755 .")
    for user in ((), tuple(OTHER)):
        assert get(f"{server}/api/contents", node="n1", user=user).startswith("403")
        assert get(f"{server}/lab?token={token[:-1]}", node="n1", user=user).startswith("302")
    assert get(f"{server}/api/contents", f"Authorization: token {token}").startswith("200")
    assert get(f"{server}/api/contents", "Host: evil.example").startswith("403")
    for node in ("n1", "login"):
        argv = [*OTHER, "bash", "-c", PEEP.format(folder=folder)]
        seen = on_cluster(argv, node=node, user="root").stdout
        assert ("code/injob\nserve\n" in seen) is (node == "n1"), "the server's command line"
        assert '"scheduler": "slurm"' in seen, "it has not read the run's record"
        assert "# scheduler: slurm" not in seen, "the script is its owner's alone"
        assert seen.count("Permission denied") >= 1
        assert token not in seen
    slurm = "squeue -o %all; scontrol show job -dd; scontrol write batch_script"
    assert token not in login.sh(f"{slurm} $(squeue -ho %A | tail -1) -")
    private = login.sh(f"find {folder} -printf '%m %P\\n' | grep ' private'").split("\n")
    assert {line.split()[0] for line in private if line} == {"700", "600"}
    ours = login.sh(f"grep -rlF -e {token} runs/jupyter-1").split()
    assert {path.split("/")[-2] for path in ours} == {"private"}


def leaves_and_comes_back(login: Login, screen: Any, token: str) -> None:
    """Ctrl-C asks; left, it goes on, and one can come back to it and end it."""
    screen.type(CTRL_C)
    screen.see("leave it.*cancel it")
    screen.type("d")
    back = shlex.split(screen.see("come back: (.*);").group(1))
    assert screen.end() == 130
    with terminal(login, *back) as again:
        again.see(token)
        again.see("for your eyes only")
        again.type(CTRL_C)
        again.see("leave it.*cancel it")
        again.type("c")
        again.see("ended: cancelled")
        assert again.end() == 86


def wait_until_gone(login: Login, node: str) -> None:
    """Wait until a node has nothing of sessions any more."""
    deadline = time.monotonic() + 30
    while found := left(login, node):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


WRITES_A_SCALAR = """
import os
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(os.environ["OUTPUT_DIR"] + "/tensorboard") as board:
    board.add_scalar("loss", 0.5, 1)
"""


OLD = {
    "form": JOB_FORM, "id": "1", "name": "old", "scheduler": "slurm", "log": "", "submitted": 1.0,
    "state": "COMPLETED", "image": IMAGE,
}  # fmt: skip


class TestTensorBoard:
    @pytest.mark.slow
    def test_runs_are_shown_to_who_has_the_token(self, login: Login) -> None:
        trainer = login.write("torch_mnist.py", WRITES_A_SCALAR)
        succeeded(login.launch("--wait", "--no-gate", trainer))
        shown = session(login, *documented("tensorboard"))
        server, token = f"http://{shown['address']}:{shown['port']}", shown["token"]
        assert get(f"{server}/data/runs").startswith("403")
        assert get(f"{server}/?token=wrong").startswith("403")
        tags = f"{server}/data/plugin/scalars/tags"
        assert '"torch_mnist-1"' in eventually(tags, f"Authorization: token {token}")
        cookie = re.search(r"302 (\S+);", get(f"{server}/?token={token}"))
        assert cookie is not None
        assert token not in cookie.group(1)
        assert get(f"{server}/data/runs", f"Cookie: {cookie.group(1)}").startswith("200")
        assert get(f"{server}/data/runs", f"Cookie: {cookie.group(1)}x").startswith("403")
        assert token not in login.sh("cat runs/tensorboard-1/logs/job.log")
        login.runner("cancel", shown["id"])

    def test_a_run_without_events_is_told(self, login: Login) -> None:
        """It has variables of its own, in a folder like that of a session."""
        login.sh("mkdir -p old/private")
        login.write("old/job.json", json.dumps(OLD))
        done = succeeded(login.runner("tensorboard", "--dry-run", "old"))
        assert "warning: old has written nothing for TensorBoard so far" in done.stderr

    def test_on_the_node_itself_only(self, login: Login) -> None:
        login.sh("mkdir -p old/tensorboard; touch old/tensorboard/events.out.tfevents.1.n1.1.0")
        login.write("old/job.json", json.dumps(OLD))
        shown = session(login, "tensorboard", "--loopback", "-w", "n2", "old")
        target = f"{shown['port']}:127.0.0.1:{shown['port']}"
        assert re.fullmatch(rf"ssh -N -J ada@\S+ -L {target} ada@n2", shown["ssh"])
        assert get(f"http://10.77.0.3:{shown['port']}/").startswith("0 ")
        there = get(f"http://127.0.0.1:{shown['port']}/", node="n2", user=tuple(OTHER))
        assert there.startswith("403")
        login.runner("cancel", shown["id"])
        wait_until_gone(login, "n2")


def eventually(url: str, *headers: str) -> str:
    """Return a page once it has something to show: TensorBoard reads the runs in the background."""
    deadline = time.monotonic() + 30
    while (page := get(url, *headers)) in ("200  {}\n", "200  []\n"):
        assert time.monotonic() < deadline, page
        time.sleep(0.5)
    return page
