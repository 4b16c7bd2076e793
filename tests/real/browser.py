"""A real browser, Chromium without a window: what a page looks like, measured and pictured."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.cluster import host

# The page stands in a frame, which is as narrow as a telephone where it is to be.
FRAME = """\
<!DOCTYPE html><iframe id="page" style="border:0" width="{width}" height="800" srcdoc="{page}">
</iframe><pre id="told"></pre><script>
addEventListener("load", () => {{
  const inside = document.getElementById("page").contentDocument;
  const measure = {measure};
  document.getElementById("told").textContent = JSON.stringify(measure(inside));
}});
</script>"""


def chromium(folder: Path, *words: str) -> str:
    """Run Chromium with a profile of its own in `folder`; return what it prints."""
    program = host.command("chromium", "chromium")
    argv = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    argv += [f"--user-data-dir={folder / 'profile'}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def measured(page: str, folder: Path, width: int, measure: str, *words: str) -> Any:
    """Return what a JavaScript function of the page's document tells, at so many pixels."""
    frame = FRAME.format(width=width, page=html.escape(page), measure=measure)
    (folder / "frame.html").write_text(frame, encoding="utf-8")
    shown = chromium(folder, *words, "--dump-dom", f"file://{folder / 'frame.html'}")
    told = re.search(r'<pre id="told">(.*?)</pre>', shown, re.DOTALL)
    assert told is not None, shown[-2000:]
    return json.loads(html.unescape(told.group(1)))
