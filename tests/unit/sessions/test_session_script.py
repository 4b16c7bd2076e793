"""Getting inside: command lines, the way to a session, the door, ports, private files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract import interfaces
from runners.contract.web_server import http_status
from runners.core import quoting
from runners.core.command_line import PROJECT, Given
from runners.core.job_record import JobPaths
from runners.core.model import BindMount, DataAccess, Dataset, SchedulerName
from runners.core.plan import Plan
from runners.injob.serve import tensorboard
from runners.injob.serve.run_server import REFUSED, jupyter_command, port_taken
from runners.injob.serve.tensorboard import TokenProxy
from runners.launching import private_folder
from runners.schedulers import pbs
from runners.script import render
from runners.script.stage_lines import AT_THE_END
from runners.sessions import server_address, session_script, terminal
from runners.sessions.server_address import ServerAddress

from .. import scripts, sentences, waiting

TOKEN = "t0ken-Of_a_session"
PATHS = JobPaths(Path("/scratch/ada/my runs/jupyter-1"))
FOUND = ServerAddress("n1", "10.77.0.2", 43210, "/lab", False)


def plan(**changed: Any) -> Plan:
    """Return the plan of a session in an image of ours, on Slurm."""
    made = scripts.made(None, "/scratch/ada/horovod_cpu.sif", scripts.OURS, **changed)
    return session_script.of(made, "/scratch/ada/it's: here")


class TestScripts:
    def test_enter_has_the_image_the_mounts_and_the_variables(self) -> None:
        text = render.enter(plan(env=(("ODD", "a, 'b'"),)), PATHS, "/scratch/ada")
        assert '. "$run/private/env.sh" || exit' in text
        assert "a, " not in text
        last = text.splitlines()[-1]
        assert last.startswith("exec apptainer exec ")
        assert " /scratch/ada/horovod_cpu.sif sh -c " in last
        assert last.endswith(f""" python3 '{PATHS.injob}' around "$@\"""")
        assert "destination=/scratch/ada/it'\"'\"'s: here" in last
        checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr

    def test_enter_checks_the_images_digest(self) -> None:
        made = replace(plan(), verified_digest="sha256:" + "0" * 64)
        assert 'sha256sum < /scratch/ada/horovod_cpu.sif)" != "0000' in render.enter(
            made, PATHS, "/"
        )

    def test_enter_finds_data_that_the_job_has_staged(self) -> None:
        made = plan(data=(Dataset("", Path("/data/x")),), stage_data=DataAccess.COPIED)
        text = session_script.interactive(made, PATHS, "/", ["bash"], pty=False)
        assert 'printf "stage=%q\\n" "$stage" > "$run/code/where.sh"' in text
        text = render.enter(made, PATHS, "/")
        assert '. "$run/code/where.sh" || exit' in text
        early = subprocess.run(["bash", "-c", text], text=True, capture_output=True, cwd="/")
        assert early.returncode != 0

    def test_a_session_is_about_no_ranks(self) -> None:
        made = plan(requeue=True)
        assert (made.interruption.signal, made.interruption.requeue_limit) == (None, 0)
        assert {c.id for c in made.choices} & set(session_script.ABOUT_RANKS) == set()
        assert BindMount("/scratch/ada/it's: here", "/scratch/ada/it's: here") in made.binds

    @pytest.mark.parametrize("served", [True, False])
    def test_a_session_is_neither_requeued_nor_signalled(self, served: bool) -> None:
        """Also where runner.toml asks for it: the script agrees with its own header."""
        made = plan(requeue=True, signal=60)
        write = [session_script.served, session_script.interactive][not served]
        words = ("jupyter", "/scratch/ada", "") if served else (["bash"], False)
        text = write(made, PATHS, "/", *words)  # type: ignore[operator]
        assert "#SBATCH --no-requeue\n" in text
        told = [line for line in text.splitlines() if re.match("#SBATCH --(requeue|signal)", line)]
        assert told == []
        assert not re.search("^# (requeue|signal): ", text, re.MULTILINE)
        assert "RESUME" not in render.enter(made, PATHS, "/")
        on_pbs = replace(made, launching=replace(made.launching, scheduler=SchedulerName.PBS))
        assert "-r n" in "".join(pbs.directives(on_pbs))

    def test_an_option_that_has_no_effect_is_warned_of_where_it_was_typed(self) -> None:
        made = scripts.jobs()["slurm-apptainer"]
        given = (Given("requeue", True), Given("signal", 60, PROJECT), Given("signal", 30))
        typed = replace(made, spec=replace(made.spec, settings=given))
        warned = session_script.of(typed, "/").warnings
        assert sentences.ids(warned) == ["unused-in-session"] * 2

    def test_the_served_one_has_no_token(self) -> None:
        text = session_script.served(plan(), PATHS, "/", "jupyter", "/scratch/ada/my work", "login")
        assert "jupyter '/scratch/ada/my runs/jupyter-1/private' '/scratch/ada/my work'" in text
        assert """ '/scratch/ada/my work' "$own" login""" in text
        assert "ulimit -c 0" in text

    def test_a_server_that_misses_the_first_signal_leaves_nothing(self, tmp_path: Path) -> None:
        """As in a container that is starting when Slurm signals; it makes its folder again."""
        server = tmp_path / "server.sh"
        server.write_text(
            'echo "$TMPDIR" > "$1"; trap \'test "$told" && exit 5; told=1\' TERM\n'
            'while :; do mkdir -p "$TMPDIR/kernel"; sleep 0.05; done\n'
        )
        where = tmp_path / "where"
        line = quoting.join(["bash", str(server), str(where)])
        script = subprocess.Popen(
            ["bash", "-c", session_script.SERVED.format(command=line)],
            env={**os.environ, "run": str(tmp_path)},
            start_new_session=True,
        )
        try:
            waiting.until(lambda: where.exists() and where.read_text())
            folder = Path(where.read_text().strip())
            assert folder.stat().st_mode & 0o777 == 0o700
            script.terminate()
            assert script.wait(20) == 5
            assert not folder.exists()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)

    @pytest.mark.parametrize(
        ("first", "server", "code"),
        [
            ('mkdir() { touch going; sleep 0.5; command mkdir "$@"; }', "sleep 60", 143),
            ("", "sh -c 'exit 7'", 7),
        ],
        ids=["before there is a server", "while staged files go"],
    )
    def test_a_signal_leaves_no_staged_files(
        self, first: str, server: str, code: int, tmp_path: Path
    ) -> None:
        """What holds staged files ignores the signal; the script's end waits for it.

        It has no TMPDIR of the server's, which Slurm would make again for a step.
        """
        lines = [
            "exec {release}> >(trap '' TERM; cat; touch going; sleep 0.5; touch removed)",
            "holder=$!",
            'finish() { test -e removed && [ -z "$TMPDIR" ] && echo finished; }',
            AT_THE_END,
            first,
            session_script.SERVED.format(command=server),
        ]
        script = subprocess.Popen(
            ["bash", "-c", "\n".join(lines)],
            cwd=tmp_path,
            env={**os.environ, "run": str(tmp_path), "TMPDIR": ""},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            waiting.until((tmp_path / "going").exists)
            script.terminate()
            assert script.wait(20) == code
            assert script.stdout is not None
            assert script.stdout.read() == "finished\n"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)

    def test_an_allocation_asks_for_what_was_asked(self) -> None:
        made = plan(resources={"nodes": 2, "gpus_per_node": "A100:1"}, sbatch_args=("--nice",))
        argv = session_script.allocation(made, PATHS)
        assert argv[0] == "salloc"
        assert {"--nodes=2", "--gpus-per-node=A100:1", "--nice"} <= set(argv)
        assert argv[-2:] == ["bash", str(PATHS.script)]
        text = session_script.interactive(made, PATHS, "/", ["ls", "a b"], pty=True)
        line = r"^srun --overlap --nodes=1 .* --pty (.*)bash .*enter' ls 'a b'$"
        found = re.search(line, text, re.M)
        assert found
        assert 'injob\' ssh-around apptainer "$nodes"' in found.group(1)
        alone = session_script.interactive(plan(), PATHS, "/", ["ls", "a b"], pty=True)
        found = re.search(line, alone, re.M)
        assert found
        assert found.group(1) == ""

    def test_without_a_scheduler_it_runs_here(self) -> None:
        made = plan()
        made = replace(made, launching=replace(made.launching, scheduler=SchedulerName.LOCAL))
        assert session_script.allocation(made, PATHS) == ["bash", str(PATHS.script)]
        assert "srun" not in session_script.interactive(made, PATHS, "/", ["bash"], pty=True)


class TestSteps:
    def test_nodes(self) -> None:
        there = ("n1", "n2", "n3")
        assert terminal.chosen(there, (), False) == ("n1",)
        assert terminal.chosen(there, (), True) == there
        assert terminal.chosen(there, ("n3", "n1", "n3"), False) == ("n3", "n1")

    def test_nodes_of_others_are_refused(self) -> None:
        with sentences.raises("node-not-of-job"):
            terminal.chosen(("n1",), ("n1", "n4"), False)
        with sentences.raises("nodelist-and-all"):
            terminal.chosen(("n1",), ("n1",), True)


class TestWay:
    def test_a_browser_in_the_cluster_is_told_the_nodes_name(self) -> None:
        """By the node's IP address JupyterLab answers 403, also with the token."""
        line = f"within the cluster:   http://n1:43210/lab?token={TOKEN}"
        assert line in server_address.way(FOUND, TOKEN, "login", "ada", False).lines
        alone = replace(FOUND, address="127.0.0.1", loopback=True)
        assert "within" not in str(server_address.way(alone, TOKEN, "login", "ada", False).lines)

    def test_to_an_ipv6_address(self) -> None:
        way = server_address.way(replace(FOUND, address="fd00::2"), TOKEN, "login", "ada", False)
        assert "-L '43210:[fd00::2]:43210'" in way.ssh

    def test_to_a_node_that_answers_itself_only(self) -> None:
        found = replace(FOUND, address="127.0.0.1", loopback=True)
        way = server_address.way(found, TOKEN, "login", "ada", False)
        assert way.ssh == "ssh -N -J ada@login -L 43210:127.0.0.1:43210 ada@n1"
        assert way.inside == ""
        assert server_address.way(found, TOKEN, "login", "ada", True).ssh == ""


class TestPrivate:
    def test_only_the_owner_reads(self, tmp_path: Path) -> None:
        paths = JobPaths(tmp_path)
        old = os.umask(0)
        try:
            private_folder.make(paths)
            kept = private_folder.write(paths, server_address.ACCESS, "how to get there")
        finally:
            os.umask(old)
        files = [paths.private, paths.private / "token", kept]
        assert [path.stat().st_mode & 0o777 for path in files] == [0o700, 0o600, 0o600]
        assert len(server_address.token(paths)) >= 43
        assert server_address.address(paths) is None

    def test_a_file_system_without_rights_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As on one that is mounted with rights of its own, such as some object stores."""
        real = Path.mkdir

        def open_to_all(self: Path, mode: int = 0o777, **more: Any) -> None:
            real(self, 0o777, **more)
            self.chmod(0o755)

        monkeypatch.setattr(Path, "mkdir", open_to_all)
        with sentences.raises("token-folder-open"):
            private_folder.make(JobPaths(tmp_path))


def hello(environ: dict[str, Any], start: Any) -> list[bytes]:
    """An application that asks nobody who they are."""
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server behind the door."""
    server = tensorboard.Server("127.0.0.1")
    server.set_app(TokenProxy(hello, TOKEN, server.server_port))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


class Stay(urllib.request.HTTPRedirectHandler):
    """Does not go where it is led."""

    def redirect_request(self, *rest: Any) -> None:
        """Nowhere."""


def ask(port: int, path: str, **headers: str) -> tuple[int, Any]:
    """Return the status and the headers of a page."""
    question = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.build_opener(Stay).open(question, timeout=5) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


class TestDoor:
    def test_the_token_gives_a_cookie_that_is_not_the_token(self, port: int) -> None:
        code, headers = ask(port, f"/a/b?x=1&token={TOKEN}")
        assert (code, headers["Location"]) == (302, "/a/b?x=1")
        cookie = headers["Set-Cookie"]
        assert TOKEN not in cookie
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        assert ask(port, "/", Cookie=f"other=1; {cookie.split(';')[0]}")[0] == 200

    def test_connections_that_ask_for_nothing_end_and_leave_no_trace(
        self, port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(tensorboard.Handler, "timeout", 0.1)
        reset = struct.pack("ii", 1, 0)  # SO_LINGER: the end of a connection is an error for others
        for start in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nX"):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as late:
                late.sendall(start)
                late.recv(1 << 16)
                late.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        assert ask(port, "/")[0] == 403
        assert capfd.readouterr().err == ""

    def test_of_too_many_half_requests_the_oldest_gives_way(
        self, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each has a thread and a descriptor, for as long as a byte comes now and then."""
        monkeypatch.setattr(tensorboard, "HALF_REQUESTS", 2)
        held = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(3)]
        assert held[0].recv(100) == b""
        assert ask(port, "/", Authorization=f"token {TOKEN}")[0] == 200
        for sock in held:
            sock.close()

    def test_a_cookie_of_a_stranger_costs_no_time(self, port: int) -> None:
        """http.cookies would take 10 s for this one, and `ask` waits for 5."""
        assert ask(port, "/", Cookie='a="' + "\\\\" * 20_000 + '"')[0] == 403

    def test_it_does_not_lead_elsewhere(self, port: int) -> None:
        assert ask(port, f"//evil.example/?token={TOKEN}")[1]["Location"].startswith("/evil")

    @pytest.mark.parametrize(
        ("path", "headers"),
        [
            ("/", {}),
            ("/?token=", {}),
            ("/?token=wrong", {}),
            ("/?token=%E2%98%83", {}),
            ("/", {"Authorization": "token wrong"}),
            ("/", {"Authorization": TOKEN}),
            ("/", {"Cookie": "runner-1=x; ;=;"}),
            ("/", {"Cookie": f"runner={TOKEN}"}),
        ],
    )
    def test_others_stay_out(self, port: int, path: str, headers: dict[str, str]) -> None:
        assert ask(port, path, **headers)[0] == 403

    def test_what_the_server_is_asked_before_it_is_shown(self, port: int) -> None:
        assert http_status("127.0.0.1", port, "/", TOKEN) == 200
        assert http_status("127.0.0.1", port, "/") in REFUSED

    def test_nobody_answers(self) -> None:
        server = tensorboard.Server("127.0.0.1")
        server.server_close()
        assert http_status("127.0.0.1", server.server_port, "/") is None


class TestAddress:
    def test_loopback(self) -> None:
        assert interfaces.is_loopback("127.0.1.1")
        assert interfaces.is_loopback("::1")
        assert not interfaces.is_loopback("10.77.0.2")

    def test_a_name_that_leads_nowhere(self) -> None:
        assert interfaces.towards("no-such-host.invalid")


class TestJupyter:
    def test_what_keeps_others_out_comes_before_the_users_own(self, tmp_path: Path) -> None:
        argv = jupyter_command(str(tmp_path), "/work", "10.77.0.2")
        assert "--KernelManager.transport=ipc" in argv
        assert "--ServerApp.ip=10.77.0.2" in argv
        assert not any("token" in word.lower() for word in argv)
        settings = json.loads((tmp_path / "config.json").read_text())
        assert "10.77.0.2" not in settings["ServerApp"]["local_hostnames"]

    def test_the_port_is_the_one_it_has_taken(self, tmp_path: Path) -> None:
        assert port_taken(str(tmp_path)) is None
        (tmp_path / "jpserver-7.json").write_text('{"po')
        assert port_taken(str(tmp_path)) is None
        (tmp_path / "jpserver-7.json").write_text('{"port": 43211}')
        assert port_taken(str(tmp_path)) == 43211
