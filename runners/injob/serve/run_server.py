"""Starts a web server in a job, checks that it requires the token, and writes where it answers."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from types import FrameType
from typing import Callable, NamedTuple

from ...contract import interfaces
from ...contract.exit_codes import EXIT_NOT_SERVED
from ...contract.run_files import ADDRESS, TOKEN
from ...contract.web_server import http_status
from .. import records
from ..processes import end, exit_code, run_module
from . import tensorboard

PORTS = range(20000, 60000)
SECONDS_TO_ANSWER = 180.0  # a cold image on a busy file system
SECONDS_TO_SETTLE = 5.0  # from the first answer to a right one
SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TO_END = 3.0
REFUSED = (401, 403)  # HTTP's status for who has no token


class NotServed(Exception):
    """There is no server, or it accepts requests without the token."""


class Server(NamedTuple):
    """A server: the module that it `needs`, a `page` that requires the token, the page to open."""

    needs: str
    page: str
    opens: str
    command: Callable[[str, str, str], list[str]]


def jupyter_command(own_folder: str, folder: str, address: str) -> list[str]:
    """Return the command line; `own_folder` is a private one, `folder` the one to show.

    The options that keep others out override the user's own settings. The token is in the file
    that JUPYTER_TOKEN_FILE names. Kernels talk over sockets in a folder of their own:
    over TCP, the default, any user of the node can read what they print (jupyter_client,
    "transport").
    """
    path = os.path.join(own_folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(_jupyter_settings(), file)
    argv = [sys.executable, *run_module("jupyterlab"), "--no-browser", f"--config={path}"]
    port = random.SystemRandom().choice(PORTS)
    argv += [f"--ServerApp.ip={address}", f"--ServerApp.port={port}"]
    argv += [f"--ServerApp.root_dir={folder}", "--ServerApp.allow_remote_access=False"]
    argv += ["--KernelManager.transport=ipc", "--ServerApp.allow_unauthenticated_access=False"]
    return argv + (["--allow-root"] if os.geteuid() == 0 else [])


def _jupyter_settings() -> dict[str, dict[str, object]]:
    shell = os.environ.get("SHELL", "")
    terminal = [shell if os.access(shell, os.X_OK) else "/bin/sh"]
    # Names under which a browser may ask, beside 127.0.0.1; others come from a page of somebody
    # else's who leads its own name here.
    names = ["localhost", socket.gethostname(), socket.getfqdn()]
    return {
        "ServerApp": {
            "local_hostnames": list(dict.fromkeys(names)),
            "terminado_settings": {"shell_command": terminal},
        },
        # Nodes seldom reach the Internet, and would wait for it.
        "LabApp": {
            "news_url": None,
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "extension_manager": "readonly",
        },
    }


def _environment(own_folder: str, token_file: str) -> dict[str, str]:
    """Return the variables for a server: kernels of the image come before those of the home."""
    return {
        "JUPYTER_TOKEN_FILE": token_file,
        "JUPYTER_RUNTIME_DIR": own_folder,
        "JUPYTER_PREFER_ENV_PATH": "1",
        tensorboard.VARIABLE: token_file,
    }


def port_taken(own_folder: str) -> int | None:
    """Return the port at which it listens, None while it does not say. It may not be the wanted."""
    for path in glob.glob(os.path.join(own_folder, "*server-*.json")):  # Jupyter's have a number
        try:
            with open(path, encoding="utf-8") as file:
                return int(json.load(file)["port"])
        except (ValueError, KeyError):
            return None  # half written
    return None


SERVERS = {
    "jupyter": Server("jupyterlab", "/api/status", "/lab", jupyter_command),
    "tensorboard": Server("tensorboard", "/data/environment", "/", tensorboard.command),
}


def main(argv: list[str]) -> int:
    """Run until the server ends, or a signal ends this process; return the exit code.

    The arguments are the server, the folder with the token, the folder to show, an empty private
    folder of this node, and the host from which it is to be reached, "" for this node.
    """
    if argv[0] == "board":
        tensorboard.serve_board(*argv[1:])
        return 0
    _end_by_signals()
    server, private, folder, own, towards = argv
    _withdraw(private)  # that of a start before this one
    # Not in the run's folder: sockets need a disk of the node, and a short path. That of the job's
    # script is not seen in every container.
    own = own if os.path.isdir(own) else tempfile.mkdtemp("", "runner-", "/tmp")
    try:
        return _serve(SERVERS[server], private, folder, own, towards)
    except NotServed as error:
        print(f"runner: {error}", file=sys.stderr, flush=True)
        return EXIT_NOT_SERVED
    finally:
        _withdraw(private)
        shutil.rmtree(own, ignore_errors=True)


def _serve(server: Server, private: str, folder: str, own_folder: str, towards: str) -> int:
    if importlib.util.find_spec(server.needs) is None:
        advice = f"runner build --from IMAGE --requirements FILE, with {server.needs} in the file"
        raise NotServed(f"the image has no {server.needs}\n  try: {advice}")
    bound = interfaces.towards(towards) if towards else interfaces.LOOPBACK
    argv = server.command(own_folder, folder, bound)
    token_file = os.path.join(private, TOKEN)
    with open(token_file, encoding="ascii") as file:
        token = file.read().strip()
    env = {**os.environ, **_environment(own_folder, token_file)}
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)
    try:
        port = _wait(process, server, own_folder, bound, token)
        facts = {
            "host": socket.gethostname(),
            "address": bound,
            "port": port,
            "page": server.opens,
            "loopback": interfaces.is_loopback(bound),
        }
        records.write_json(os.path.join(private, ADDRESS), facts, mode=0o600)
        return exit_code(process.wait())
    finally:
        end([process], SECONDS_TO_END)  # and with it its kernels


def _end_by_signals() -> None:
    """Let a signal end this process by way of its `finally`, which ends the server too."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def ended(number: int, frame: FrameType | None) -> None:
        for name in signals:
            signal.signal(name, signal.SIG_IGN)  # a second one would interrupt what ends it
        sys.exit(128 + number)

    for number in signals:
        signal.signal(number, ended)
    # The warning before the time limit: there is nothing to save that the user would not. Ignored
    # by a handler, which the server, unlike SIG_IGN, does not inherit.
    signal.signal(signal.SIGUSR1, lambda number, frame: None)


def _withdraw(private: str) -> None:
    """Remove the published address: nothing answers there any more."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(private, ADDRESS))


def _wait(
    process: subprocess.Popen[bytes], server: Server, own_folder: str, bound: str, token: str
) -> int:
    """Return the port, once the server answers there as it should; raise NotServed otherwise."""
    deadline = time.monotonic() + SECONDS_TO_ANSWER
    patience = SECONDS_TO_SETTLE
    while time.monotonic() < deadline and patience > 0:
        if process.poll() is not None:
            raise NotServed(f"{server.needs} ended with exit code {exit_code(process.returncode)}")
        port = port_taken(own_folder)
        status = http_status(bound, port, server.page, token) if port else None
        if port and status == 200:
            if http_status(bound, port, server.page) not in REFUSED:
                raise NotServed(
                    f"{server.needs} accepts requests without the token: it was stopped"
                )
            return port
        patience -= SECONDS_BETWEEN_LOOKS if status else 0
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if patience <= 0:
        raise NotServed(f"{server.needs} answers with HTTP status {status} to the right token")
    raise NotServed(f"{server.needs} has not answered for {SECONDS_TO_ANSWER:.0f} s")
