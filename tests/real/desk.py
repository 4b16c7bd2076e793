"""Where the tests of pull and push work: a shop that has images, a desk to pull them to."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from . import servers
from .conftest import Done, Login, new_folder, on_cluster, succeeded
from .servers import Server

USAGE, REFUSED, FAULT, NOT_VERIFIED = 2, 80, 1, 81
# What is in the images folder and in images.lock, lock files left out.
LIST = (
    "{ find scratch ! -type d ! -name '*.lock' -printf '%P %l %s\\n' 2>/dev/null | sort;"
    " cat images.lock 2>/dev/null; }"
)
ZEROS = "sha256:" + "0" * 64


@dataclass(frozen=True)
class Desk(Login):
    """A folder to pull in, with an images folder of its own below `scratch`."""

    def runner(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Run `runner` with plain http allowed and the folder's own scratch."""
        ours = {"RUNNER_SCRATCH": f"{self.folder}/scratch", "APPTAINER_NOHTTPS": "1"}
        return self.run("runner", *words, env={**ours, **(env or {})})

    def pull(self, *words: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Pull what must be had; return the facts."""
        done = succeeded(self.runner("pull", "--json", *words, env=env))
        facts: dict[str, Any] = json.loads(done.stdout)
        return facts

    def refused(self, code: int, *words: str, env: Mapping[str, str] | None = None) -> str:
        """Pull what cannot be had; see that nothing is left; return what it said."""
        pull = shlex.join(["runner", "pull", *words])
        script = f"{LIST} > before; {pull} > out; code=$?; {LIST} > after; diff before after >> out"
        ours = {"RUNNER_SCRATCH": f"{self.folder}/scratch", "APPTAINER_NOHTTPS": "1"}
        done = self.run("bash", "-c", f"{script}; cat out; exit $code", env={**ours, **(env or {})})
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stdout == "", "it printed something, or files differ"
        assert "Traceback" not in done.stderr
        return done.stderr


@pytest.fixture(scope="session")
def shop() -> Iterator[Login]:
    """A folder with two images; removed afterwards."""
    folder = new_folder(name="shop")
    home = Login(folder)
    try:
        home.sh(servers.MAKE_IMAGE)
        yield home
    finally:
        on_cluster(["rm", "-rf", folder])


@pytest.fixture(scope="session")
def registry(shop: Login) -> Iterator[Server]:
    """A registry without a password that has team/train:v1."""
    with servers.registry(shop, "registry") as server:
        words = ["push", "--no-https", "python.sif", f"oras://{server.host}/team/train:v1"]
        succeeded(shop.runner(*words))
        yield server


@pytest.fixture
def desk(login: Login) -> Desk:
    """An empty folder to pull in."""
    return Desk(login.folder)


@cache
def digest_in(shop: Login, name: str) -> str:
    """Return the digest of one of the shop's images, which stay as they are."""
    return digest_of(shop, name)


def digest_of(home: Login, path: str) -> str:
    """Return the digest of a file."""
    return "sha256:" + home.sh(f"sha256sum {path}").split()[0]
