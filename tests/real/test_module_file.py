"""The module file of docs/guides/sites.md, as a user loads it."""

from __future__ import annotations

import shlex

import pytest

from tests import documents

from .conftest import Login
from .terminal import terminal
from .test_environments import MODULES

pytestmark = pytest.mark.parametrize("tool", MODULES)
PLAIN_PATH = "/usr/bin:/bin"  # without the cluster's own runner


@pytest.fixture
def apps(login: Login) -> str:
    """The folder of an installation, made as the page says; the cluster's is the environment."""
    page = documents.ROOT / "docs" / "guides" / "sites.md"
    texts = {block.language: block.text for block in documents.blocks(page)}
    folder = f"{login.folder}/apps"
    # The cluster's environment is the installed one, in the place of the first line.
    steps = texts["sh"].partition("\n")[2].replace("/apps/runner/venv/bin/runner", "$0")
    script = steps.replace("/apps/runner", folder)
    login.sh(f"bash -ec {shlex.quote(script)} $(type -P runner)")
    login.sh("""echo 'base = "tuhpc"' > apps/sites/mine.toml""")
    login.write(
        "apps/modulefiles/horovod-runner/0.1.0", texts["tcl"].replace("/apps/runner", folder)
    )
    return folder


def test_it_gives_runner_and_the_sites_profiles(login: Login, apps: str, tool: str) -> None:
    said = login.sh(
        f"PATH={PLAIN_PATH}; . {MODULES[tool]}; module use {apps}/modulefiles\n"
        "module load horovod-runner; type -P runner python3; runner --version\n"
        "runner sites | grep -o mine\n"
        "module unload horovod-runner; type -P runner || echo unloaded"
    )
    assert said.splitlines() == [
        f"{apps}/bin/runner",
        "/usr/bin/python3",
        "runner, version 0.1.0",
        "mine",
        "unloaded",
    ]


def test_the_tab_key_completes(login: Login, apps: str, tool: str) -> None:
    with terminal(login, "bash", "--norc", env={"PATH": PLAIN_PATH}) as user:
        user.type(f". {MODULES[tool]}; module use {apps}/modulefiles\n")
        user.type("module load horovod-runner; echo lo''aded\n")
        user.see("loaded")
        user.type("runner lau\t")
        user.see("runner launch ")
        user.type("--image apps/completion.b\t")
        user.see(r"apps/completion\.bash")
