"""The documentation's pages: their code blocks, and the commands in them.

A comment before a block says what to do with it:

    <!-- parsed only: REASON -->   its commands are not run on the cluster, only parsed
    <!-- exit code: N -->          its commands end with N, not with 0
    <!-- file: NAME -->            it is a file, written before the commands after it run
    <!-- lines of: NAME -->        its lines stand in that minimal trainer, in this order

A page's first line may be `<!-- site: NAME -->`: its commands run on a cluster like that site's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
BLOCK = re.compile(
    r"^(?P<marks>(?:<!-- [^\n]* -->\n)*)```(?P<language>[a-z]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"<!-- (parsed only|exit code|file|lines of): (.+) -->")
SITE = re.compile(r"^<!-- site: (\w+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block; `marks` are those of the comments before it, by name."""

    page: str
    language: str
    text: str
    marks: dict[str, str]

    @property
    def commands(self) -> list[str]:
        """Each line after a prompt; a backslash at its end takes the next line in."""
        text = self.text.replace("\\\n", "")
        return re.findall(r"^\$ (.+)$", text, re.MULTILINE)

    @property
    def on_cluster(self) -> list[str]:
        """The commands that are run on the cluster; make is what runs them."""
        if self.language != "console" or "parsed only" in self.marks:
            return []
        return [command for command in self.commands if not command.startswith("make ")]

    @property
    def shown(self) -> list[str]:
        """The lines that its commands print, as far as the page shows them: `...` is for others."""
        lines = self.text.replace("\\\n", "").splitlines()
        return [line for line in lines if not line.startswith("$ ") and line != "..."]

    @property
    def exit_code(self) -> int:
        """What its commands end with."""
        return int(self.marks.get("exit code", 0))


def pages() -> list[Path]:
    """Return every page, README.md first."""
    addons = ROOT.glob("addons/*/README.md")
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(addons)]


def without_numbers(line: str) -> str:
    """Return a line without its numbers, spaces and folders: what differs from run to run."""
    line = re.sub(r"/\S*(?=/runs/)", "", " ".join(line.split()))
    return re.sub(r"\d[\d.,:]*", "0", line)


def name(page: Path) -> str:
    """Return a page's path in the repository."""
    return str(page.relative_to(ROOT))


def site(page: Path) -> str:
    """Return the site on whose like a page's commands run, "" for the usual cluster."""
    found = SITE.match(page.read_text(encoding="utf-8"))
    return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    """Return a page's code blocks, in order."""
    return blocks_of(name(page), page.read_text(encoding="utf-8"))


def blocks_of(page: str, text: str) -> list[Block]:
    """Return the code blocks of a text, which is that of the page so named."""
    return [
        Block(page, found["language"], found["text"], dict(MARK.findall(found["marks"])))
        for found in BLOCK.finditer(text)
    ]


def commands() -> Iterator[tuple[Block, str]]:
    """Yield every command of every console, with its block."""
    for page in pages():
        for block in blocks(page):
            if block.language == "console":
                yield from ((block, command) for command in block.commands)


def command(start: str) -> str:
    """Return the one command of the pages that matches the regular expression from its start.

    Those of the tutorials are the sites' own.
    """
    usual = (text for block, text in commands() if not block.page.startswith("docs/tutorials/"))
    found = {text for text in usual if re.match(start, text)}
    assert len(found) == 1, f"{start}: {sorted(found)}"
    return found.pop()
