"""The nodes' tree in the host's own network: for building images, which needs the outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from . import namespaces, rootfs
from .design import Design
from .namespaces import Bind
from .state import CHECKOUT, State

CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
CA_VARIABLES = (
    *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT"),
    *("GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"),
)
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def shared_binds(state: State, design: Design) -> list[Bind]:
    """What every node and the toolbox see of the host: shared folders, checkout, installs."""
    return [
        Bind(state.home, "/home", read_only=False),
        Bind(state.scratch, "/scratch", read_only=False),
        Bind(state.installs, "/opt/installs"),
        Bind(CHECKOUT, "/opt/kit"),
        *(Bind.parse(text) for text in design.binds),
    ]


def host_bundle(environ: Mapping[str, str]) -> Path | None:
    """The certificate bundle that this host trusts, or None when it has none."""
    named = (environ.get(name) for name in CA_VARIABLES)
    for path in (*(Path(name) for name in named if name), CA_BUNDLE):
        if path.is_file():
            return path.resolve()
    return None


def network_binds(environ: Mapping[str, str]) -> list[Bind]:
    """The host's name resolution and certificates."""
    found = [Bind(Path(p).resolve(), p) for p in ("/etc/resolv.conf", "/etc/hosts")]
    bundle = host_bundle(environ)
    return found + ([Bind(bundle, str(CA_BUNDLE))] if bundle else [])


def network_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The proxy settings of the host, and its certificate settings with the tree's path."""
    proxies = {name: environ[name] for name in PROXY_VARIABLES if name in environ}
    return {**proxies, **{name: str(CA_BUNDLE) for name in CA_VARIABLES if name in environ}}


def argv(state: State, command: Sequence[str], user: str, binds: Iterable[Bind] = ()) -> list[str]:
    """The host command that runs *command* in the toolbox; the tree and folders are made first."""
    tree = rootfs.ensure(state, state.design.release)
    state.create_shared()
    all_binds = [*shared_binds(state, state.design), *network_binds(os.environ), *binds]
    script = namespaces.root_script(tree, state.mountpoint, all_binds)
    extra = network_environment(os.environ)
    login = namespaces.login_argv(command, user, extra, os.environ.get("TERM", ""))
    # tini is process 1: it reaps orphans and makes Ctrl-C work.
    inner = ["tini", "--", *login]
    unshare = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child"]
    return [*unshare, "sh", "-c", script, "sh", *inner]
