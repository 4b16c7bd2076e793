"""The site: the Markdown files as they are, made by Sphinx with the theme Furo into build/site.

The sources' root is the repository's, so that links between README.md, docs/ and tests/ hold on the
forge and on the site alike. What only Sphinx needs, such as the order of the pages, stands here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "horovod-runner"
html_title = project
language = "en"
smartquotes = False  # they would make dashes of options
extensions = ["myst_parser", "sphinx_copybutton", "sphinx.ext.githubpages"]

FRONT = root_doc = "README"
NAV = {
    "Start": ["docs/start/first-hour", "docs/start/own-trainer", "docs/start/your-cluster"],
    "Guides: run": [
        "docs/guides/launch",
        "docs/guides/batch-scripts",
        "docs/guides/frameworks",
        "docs/guides/follow",
        "docs/guides/use",
        "docs/guides/requeue",
        "docs/guides/interactive",
        "docs/guides/sweeps",
        "docs/guides/python-api",
        "docs/guides/pipelines",
        "docs/guides/trainers",
        "docs/guides/inference",
        "docs/guides/data",
        "docs/guides/configuration",
    ],
    "Guides: images": [
        "docs/guides/build",
        "docs/guides/build-your-own",
        "docs/guides/dockerfiles",
        "docs/guides/without-container",
        "docs/guides/verify",
        "docs/guides/registries",
        "docs/guides/images-on-nodes",
    ],
    "Guides: measure and mend": [
        "docs/guides/speed",
        "docs/guides/scaling-study",
        "docs/guides/sites",
        "docs/guides/troubleshooting",
    ],
    "Tutorials": [
        "docs/tutorials/README",
        "docs/tutorials/five-steps",
        "docs/tutorials/neuron",
        "docs/tutorials/perlmutter",
        "docs/tutorials/alvis",
        "docs/tutorials/tuhpc",
        "docs/tutorials/alcf",
    ],
    "Concepts": [
        "docs/concepts/worlds",
        "docs/concepts/one-model",
        "docs/concepts/parallelism",
        "docs/concepts/images",
        "docs/concepts/disk",
        "docs/concepts/security",
        "docs/concepts/exit-codes",
        "docs/concepts/glossary",
    ],
    "Measurements": [
        "docs/measurements/exchange",
        "docs/measurements/gpu",
        "docs/measurements/runner",
        "docs/measurements/builds",
        "docs/measurements/packing",
        "docs/measurements/packages",
        "docs/measurements/images-on-nodes",
        "docs/measurements/rendezvous",
        "docs/measurements/scale",
        "docs/measurements/one-model",
        "docs/measurements/frameworks",
        "docs/measurements/elastic",
        "docs/measurements/warm-up",
        "docs/measurements/data",
        "docs/measurements/explain",
        "docs/measurements/tests",
    ],
    "Reference": [
        "docs/reference/commands",
        "docs/reference/settings",
        "docs/reference/variables",
        "docs/reference/files",
        "docs/reference/diagnoses",
        "docs/reference/failures",
        "docs/reference/batch-findings",
    ],
    "Project": [
        "docs/README",
        "docs/compare",
        "docs/contributing",
        "addons/convert/README",
        "Report a bug, send a change <CONTRIBUTING>",
        "SECURITY",
        "CHANGELOG",
        "tests/matrix/RESULTS",
        "tests/faults/RESULTS",
    ],
}
include_patterns = ["*.md", "docs/**.md", "tests/*/RESULTS.md", "addons/*/README.md"]
exclude_patterns = ["build"]

myst_heading_anchors = 4  # as on the forge: `## Set up` is #set-up

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = html_show_sphinx = False
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"


def add_nav(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the order of the pages to the front page; on the forge it would be noise."""
    if docname == FRONT:
        for caption, pages in NAV.items():
            toctree = [f":caption: '{caption}'", ":hidden:", "", *pages]
            source[0] += "\n".join(["", "```{toctree}", *toctree, "```", ""])


def copy_front(app: Sphinx, exception: Exception | None) -> None:
    """Show the front page also where no page is named, on a server and in a folder."""
    if exception is None:
        shutil.copy(app.outdir / f"{FRONT}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Take part in Sphinx's events."""
    app.connect("source-read", add_nav)
    app.connect("build-finished", copy_front)
