"""A real browser, Chromium without a window: what a page looks like."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster import host


def chromium(folder: Path, *words: str) -> str:
    """Run Chromium with a profile of its own in `folder`; return what it prints."""
    program = host.command("chromium", "chromium")
    argv = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    argv += [f"--user-data-dir={folder / 'profile'}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout
