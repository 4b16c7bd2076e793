"""Command line of the test cluster: python3 -m tests.cluster --help."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import host, rootfs, toolbox
from .namespaces import Bind
from .shell import ClusterError
from .state import USER, State


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(prog="python3 -m tests.cluster", description=__doc__)
    top.add_argument("--state", metavar="DIR", help="this cluster's folder (RUNNER_CACHE/cluster)")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("rootfs", help="build the nodes' root file system, print its path")
    box = commands.add_parser("toolbox", help="run in the tree, in the host's network")
    box.add_argument("--bind", action="append", default=[], metavar="SRC[:DST[:rw]]")
    box.add_argument("--as", dest="user", choices=[USER, "root"], default=USER)
    box.add_argument("argv", nargs="+", metavar="CMD")
    return top


def _rootfs(state: State, options: argparse.Namespace) -> None:
    print(rootfs.ensure(state))


def _toolbox(state: State, options: argparse.Namespace) -> None:
    host.require()
    binds = [Bind.parse(text) for text in options.bind]
    _become(toolbox.argv(state, options.argv, options.user, binds))


def _become(argv: Sequence[str]) -> None:
    sys.stdout.flush()
    os.execvp(argv[0], argv)


COMMANDS = {"rootfs": _rootfs, "toolbox": _toolbox}


def main() -> int:
    """Run one command; 1 when it failed, 2 when this machine or the usage does not allow it."""
    options = parser().parse_args()
    try:
        COMMANDS[options.command](State.locate(options.state), options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
