"""The documentation as a site: it builds without a warning, its links hold, it works offline."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests import documents

from . import browser
from .conftest import CHECKOUT, succeeded

SITE = CHECKOUT / "build" / "site"
# All pages side by side, each as narrow as a telephone: only code, tables and the demo may be wider
# than that, each in a box of its own.
PHONES = """\
<!DOCTYPE html>{frames}<pre id="wide"></pre><script>
addEventListener("load", () => {{
  const wide = [...document.querySelectorAll("iframe")].filter(frame => {{
    const text = frame.contentDocument.querySelector(".content");
    return text.scrollWidth > text.clientWidth;
  }});
  document.getElementById("wide").textContent = wide.map(frame => frame.title).join(" ") || "none";
}});
</script>"""
FRAME = '<iframe title="{name}" src="file://{page}" width="390" height="844"></iframe>'


@dataclass
class Page(HTMLParser):
    """What a page of the site has: anchors, links, and what a browser loads by itself."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element's attributes."""
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif address := values.get("src") or (values.get("href") if tag == "link" else None):
            self.loaded.append(address)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    """The site's pages by their files, newly built."""
    succeeded(
        subprocess.run(
            ["make", "docs"], capture_output=True, text=True, cwd=CHECKOUT, timeout=600, check=False
        )
    )
    return {path: Page(path) for path in sorted(SITE.rglob("*.html"))}


def local(page: Page, address: str) -> tuple[Path, str]:
    """Return the file and the anchor to which an address on a page leads."""
    path, anchor = urldefrag(address)
    target = (page.path.parent / unquote(path.partition("?")[0])).resolve()
    return (target if path else page.path), unquote(anchor)


def test_it_has_every_document(pages: dict[Path, Page]) -> None:
    names = [Path(documents.name(page)).with_suffix(".html") for page in documents.pages()]
    assert [name for name in names if SITE / name not in pages] == []


def test_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for page in pages.values():
        for link in page.links:
            if re.match(r"https?:", link):
                continue
            path, anchor = local(page, link)
            there = pages[path].anchors if path in pages else {""}
            if not path.is_file() or anchor not in {"", *there}:
                broken.append((page.path.name, link))
    assert broken == []


def test_a_page_loads_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        missing = [a for a in page.loaded if not local(page, a)[0].is_file()]
        assert missing == [], page.path
    styles = "".join(file.read_text(encoding="utf-8") for file in SITE.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:https?:)?//|@import", styles) == []


def test_a_telephone_need_not_scroll_sideways(pages: dict[Path, Page], tmp_path: Path) -> None:
    frames = [FRAME.format(name=path.relative_to(SITE), page=path) for path in pages]
    (tmp_path / "phones.html").write_text(PHONES.format(frames="".join(frames)), encoding="utf-8")
    shown = browser.chromium(
        tmp_path,
        "--allow-file-access-from-files",
        "--dump-dom",
        f"file://{tmp_path / 'phones.html'}",
    )
    assert re.findall(r'<pre id="wide">(.*?)</pre>', shown) == ["none"]


@pytest.mark.usefixtures("pages")
def test_search_works_without_a_server(tmp_path: Path) -> None:
    address = f"file://{SITE / 'search.html'}?q=preemption"
    shown = browser.chromium(tmp_path, "--virtual-time-budget=10000", "--dump-dom", address)
    results = re.findall(r'<a href="([^"?#]+)[^"]*"[^>]*data-score', shown)
    assert "docs/guides/requeue.html" in results, shown[-3000:]
