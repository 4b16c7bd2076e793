"""Every command of README.md and docs/, as it stands there, page by page and in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.documents import ROOT, Block, blocks, name, pages, site, without_numbers

from .beside import cluster
from .conftest import IMAGE, UNPACKED, Done, Login, ended, new_folder

ALL = [page for page in pages() if any(block.on_cluster for block in blocks(page))]
PAGES = [page for page in ALL if not site(page)]
OF_A_SITE = [page for page in ALL if site(page)]
TRAINS = re.compile(r"\b(launch|scale) --image horovod_cpu\.sif\b")
# Of the demo, what README leaves out: an image that is read for the first time, progress within an
# epoch, and the table of what the job used.
LEFT_OUT = re.compile(r"reading /|\d@n\d \| step |runner: (what the job used|node ranks|n\d )")
WAITS = re.compile(r"runner: job \d+:? pending")
# What a new user reads first is run each time, and what takes seconds, as it starts no job.
EACH_TIME = {
    *("README.md", "docs/start/first-hour.md", "docs/guides/frameworks.md"),
    *("docs/concepts/worlds.md", "docs/guides/build.md", "docs/guides/registries.md"),
    *("docs/guides/sites.md", "docs/guides/verify.md", "docs/guides/without-container.md"),
}


class WithoutGpus(Login):
    """A folder in which commands run as if each had --no-nv."""

    def run(self, *argv: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> Done:
        """Run a command in the folder."""
        return super().run(*argv, env={"RUNNER_NV": "false", **(env or {})}, timeout=timeout)


def run(login: Login, page: Path) -> None:
    """Write a page's files and run its commands; each must end as the page says."""
    for number, block in enumerate(blocks(page)):
        if "file" in block.marks:
            login.write(block.marks["file"], block.text)
        run_block(login, block, name(page) == "README.md" and number == 0)


def run_block(login: Login, block: Block, packed: bool) -> None:
    """Run its commands, and look for the lines that it shows.

    Of commands those that train do so in the packed image only where asked.
    """
    printed = ""
    for command in block.on_cluster:
        # salloc has its own idea of a rank's CPUs, to which a preset gives way.
        fewer = "env -u RUNNER_CPUS_PER_TASK " if command.startswith("salloc ") else ""
        if not packed and "--stage-image" not in command:  # which needs a file
            command = TRAINS.sub(rf"\1 --image {UNPACKED}", command)
        if command.startswith("runner launch ") and command.endswith(" torch_mnist"):
            command += " -- --epochs 1"  # not its 16: how it learns is shown by test_recipes.py
        done = ended(login.run("bash", "-c", fewer + command), block.exit_code)
        printed += done.stdout + done.stderr
    assert not lacking(block, printed), printed


def lacking(block: Block, printed: str) -> list[str]:
    """Return the lines that a console shows and its commands did not print, numbers aside."""
    known = set(map(without_numbers, printed.splitlines()))
    return [line for line in block.shown if block.on_cluster and without_numbers(line) not in known]


def test_the_demos_transcript_is_what_make_demo_prints(login: Login) -> None:
    """All lines that README shows, and those of the trainer and the result in their order.

    What it leaves out is said: progress within an epoch, and what the job used.
    """
    (block,) = (b for b in blocks(ROOT / "README.md") if b.text.startswith("$ make demo"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    demo = re.search(r"^DEMO := (.+)$", makefile, re.MULTILINE)
    assert demo is not None
    done = ended(login.run("bash", "-c", f"{demo[1]} 2>&1"), 0)
    printed = [without_numbers(line) for line in done.stdout.splitlines()]
    shown = [without_numbers(line) for line in block.shown]
    if not any(WAITS.match(line) for line in printed):  # it began at once
        shown = [line for line in shown if not WAITS.match(line)]
    assert [line for line in shown if line not in printed] == [], done.stdout
    rest = iter(line for line in printed if not line.startswith("runner: "))
    assert all(line in rest for line in shown if not line.startswith("runner: ")), done.stdout
    more = [line for line in printed if line not in shown and not LEFT_OUT.match(line)]
    assert more == [], "README does not show these"


def _lane(page: Path) -> Any:
    marks = () if name(page) in EACH_TIME else (pytest.mark.slow,)
    return pytest.param(page, id=name(page), marks=marks)


@pytest.mark.parametrize("page", [*map(_lane, PAGES)])
def test_every_command_of_a_page(login: Login, page: Path) -> None:
    run(login, page)


@pytest.mark.slow
@pytest.mark.parametrize("page", OF_A_SITE, ids=map(name, OF_A_SITE))
def test_every_command_of_a_sites_page(page: Path) -> None:
    """The image for GPUs is the CPU one, without --nv: the GPUs that Slurm counts are none."""
    with cluster("--like", site(page)):
        folder = new_folder()
        login = WithoutGpus(folder)
        login.sh(f"cp {IMAGE} horovod_gpu.sif; cp {IMAGE} horovod_cpu.sif")
        run(login, page)
