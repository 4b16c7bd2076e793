"""Every command of README.md and docs/, as it stands there, page by page and in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import Block, blocks, name, pages

from .conftest import Login

PAGES = [page for page in pages() if any(block.on_cluster for block in blocks(page))]


def run(login: Login, block: Block) -> None:
    """Run a console's commands; each must end as its page says."""
    for command in block.on_cluster:
        # salloc has its own idea of a rank's CPUs, to which a preset gives way.
        fewer = "env -u RUNNER_CPUS_PER_TASK " if command.startswith("salloc ") else ""
        done = login.run("bash", "-c", fewer + command)
        assert done.returncode == block.exit_code, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=map(name, PAGES))
def test_every_command_of_a_page(login: Login, page: Path) -> None:
    for block in blocks(page):
        if "file" in block.marks:
            login.write(block.marks["file"], block.text)
        run(login, block)
