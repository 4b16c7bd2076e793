"""JupyterLab: how it is started so that nobody else on the node gets in.

Its kernels talk over sockets in a folder of their own: over TCP, which is Jupyter's default, any
user of the node can read what they print (jupyter_client, "transport").
"""

from __future__ import annotations

import glob
import json
import os
import socket
import sys

from ..processes import run_module

PAGE = "/api/status"  # given to nobody without a token, and cheap
OPEN = "/lab"
NEEDS = "jupyterlab"


def command(own: str, folder: str, address: str, port: int) -> list[str]:
    """Return the command line; `own` is a private folder on the node, `folder` the one to show.

    What keeps others out stands here, where it comes before the user's own settings; the token is
    in the file that JUPYTER_TOKEN_FILE names.
    """
    path = os.path.join(own, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(_settings(), file)
    argv = [sys.executable, *run_module(NEEDS), "--no-browser", f"--config={path}"]
    argv += [f"--ServerApp.ip={address}", f"--ServerApp.port={port}"]
    argv += [f"--ServerApp.root_dir={folder}", "--ServerApp.allow_remote_access=False"]
    argv += ["--KernelManager.transport=ipc", "--ServerApp.allow_unauthenticated_access=False"]
    return argv + (["--allow-root"] if os.geteuid() == 0 else [])


def _settings() -> dict[str, dict[str, object]]:
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


def environment(own: str, token_file: str) -> dict[str, str]:
    """Return what it needs beside ours: the image's kernels come before those of the home."""
    return {
        "JUPYTER_TOKEN_FILE": token_file,
        "JUPYTER_RUNTIME_DIR": own,
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def port(own: str) -> int | None:
    """Return the port at which it listens, None while it does not say; it may not be the wanted."""
    for path in glob.glob(os.path.join(own, "jpserver-*.json")):
        try:
            with open(path, encoding="utf-8") as file:
                return int(json.load(file)["port"])
        except (ValueError, KeyError):
            return None  # half written
    return None
