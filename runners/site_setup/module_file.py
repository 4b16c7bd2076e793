"""The module file: Tcl, which Environment Modules and Lmod both read. Pure.

Completion is sourced by the shell, which both have always been able to have done: `complete` and
`set-function` are in the younger ones only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..settings.sites import load
from .folder import MODULE, SetUp

# How a shell takes the completion in, where it can, and forgets it. Each succeeds: a job's shell
# inherits the module and not the completion, and may end at the first failure.
SHELLS = {
    "bash": ("source {file};", "complete -r runner 2>/dev/null || true;"),
    "zsh": (
        "(( ! $+functions[compdef] )) || source {file};",
        "compdef -d runner 2>/dev/null || true;",
    ),
    "fish": ("source {file};", "complete --erase --command runner;"),
}


def text(setup: SetUp, title: str, sites: Sequence[Path], site: str) -> str:
    """Return the module file's text.

    `sites` are the set-up's folders of profiles; `site` is what RUNNER_SITE is to be, "" where the
    profile itself tells that it is here.
    """
    about = f"{MODULE} {__version__}: distributed training in containers, {_plain(title)}"
    lines = [
        "#%Module1.0",
        "# Made by `runner site-setup`: run it again instead of editing this file.",
        "proc ModulesHelp { } {",
        f"    puts stderr {_word(about)}",
        f"    puts stderr {_word(f'Guide: {setup.guide}')}",
        '    puts stderr "Commands: runner --help"',
        "}",
        f"module-whatis {_word(about)}",
        f"conflict {MODULE}",
        f"prepend-path PATH {_word(str(setup.launcher.parent))}",
    ]
    # The variable takes the place of the folder of the machine, which is to be read further.
    for folder in (*sites, load.SITE_WIDE) if sites else ():
        lines.append(f"append-path RUNNER_SITES_PATH {_word(str(folder))}")
    if site:
        lines.append(f"setenv RUNNER_SITE {_word(site)}")
    return "\n".join([*lines, *_completion(setup), ""])


def _completion(setup: SetUp) -> list[str]:
    lines = ["switch -- [module-info shell] {"]
    for shell, (take, forget) in SHELLS.items():
        taken = take.format(file=shlex.quote(str(setup.completion(shell))))
        lines += [
            f"    {shell} {{",
            f"        if {{[module-info mode load]}} {{ puts stdout {_word(taken)} }}",
            f"        if {{[module-info mode remove]}} {{ puts stdout {_word(forget)} }}",
            "    }",
        ]
    return [*lines, "}"]


def _word(text: str) -> str:
    """Return one word of Tcl that stands for itself, within braces too."""
    return '"' + re.sub(r'([\\"$\[\]{}])', r"\\\1", text) + '"'


def _plain(title: str) -> str:
    """Return a title without what one of the two, or a terminal, does not show as it is."""
    return re.sub(r"[^ -~]|[\\\[\]{}$\"]", "?", " ".join(title.split()))
