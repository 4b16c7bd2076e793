"""Command line of the test cluster: python3 -m tests.cluster --help."""

from __future__ import annotations

import argparse
import os
import sys
import time

from . import builds, design, flavours, host, install, lifecycle, nodes, releases, rootfs, toolbox
from .design import Design
from .namespaces import Bind
from .shell import ClusterError
from .state import OTHER, USER, State, locked


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(prog="python3 -m tests.cluster", description=__doc__)
    top.add_argument("--state", metavar="DIR", help="this cluster's folder (RUNNER_CACHE/cluster)")
    commands = top.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start the cluster, install runner in it")
    _design_options(start)
    commands.add_parser("possible", help="say why this machine cannot carry a cluster, exit with 2")
    commands.add_parser("down", help="end the cluster; nothing of it stays but its files")
    commands.add_parser("status", help="nodes, addresses, processes, Slurm's view")
    commands.add_parser("install", help="install this checkout's runner in the running cluster")
    inside = commands.add_parser("exec", help="run a command on the login node")
    shell = commands.add_parser("shell", help="an interactive shell on the login node")
    for command in (inside, shell):
        command.add_argument("--node", default=design.CONTROLLER, help="another node, such as n1")
        command.add_argument("--as", dest="user", choices=[USER, OTHER, "root"], default=USER)
    inside.add_argument("argv", nargs="+", metavar="CMD")
    tree = commands.add_parser("rootfs", help="build a root file system, print its path")
    _release_option(tree)
    box = commands.add_parser("toolbox", help="run in the tree, in the host's network")
    _bind_option(box)
    box.add_argument("--as", dest="user", choices=[USER, "root"], default=USER)
    box.add_argument("argv", nargs="+", metavar="CMD")
    ours = commands.add_parser("runner", help="run this checkout's `runner` in the toolbox, as ada")
    _bind_option(ours)
    ours.add_argument("argv", nargs="+", metavar="WORD")
    return top


def _release_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--release",
        choices=releases.RELEASES,
        default=releases.DEFAULT,
        help=f"Debian's, and with it the generation of Slurm ({releases.DEFAULT})",
    )


def _bind_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="SRC[:DST[:rw]]",
        help="a file or folder of the host to show there",
    )


def _design_options(start: argparse.ArgumentParser) -> None:
    names = start.add_mutually_exclusive_group()
    names.add_argument("--nodes", type=int, default=2, help="number of compute nodes (2)")
    names.add_argument("--names", metavar="A,B,...", help="names of the compute nodes (n1,n2)")
    names.add_argument("--like", choices=flavours.FLAVOURS, help="nodes and Slurm as on this site")
    _release_option(start)
    _bind_option(start)
    start.add_argument(
        "--quirk",
        action="append",
        choices=design.QUIRKS,
        default=[],
        help="; ".join(f"{name}: {text}" for name, text in design.QUIRKS.items()),
    )


def _design(options: argparse.Namespace) -> Design:
    quirks = tuple(sorted(set(options.quirk)))
    if options.like:
        nodes = flavours.FLAVOURS[options.like].nodes
        return Design(options.release, nodes, quirks, options.like, tuple(options.bind))
    nodes = design.named(options.names) if options.names else design.numbered(options.nodes)
    return Design(options.release, nodes, quirks, binds=tuple(options.bind))


def _possible(state: State, options: argparse.Namespace) -> None:
    host.check()


def _rootfs(state: State, options: argparse.Namespace) -> None:
    print(rootfs.ensure(state, options.release))


def _toolbox(state: State, options: argparse.Namespace) -> None:
    host.require()
    with locked(state.root):
        install.refresh(state)
    binds = [Bind.parse(text) for text in options.bind]
    _become(toolbox.argv(state, options.argv, options.user, binds))


def _runner(state: State, options: argparse.Namespace) -> None:
    host.require()
    with locked(state.root):
        install.refresh(state)
    _become(builds.argv(state, options.argv, [Bind.parse(text) for text in options.bind]))


def _up(state: State, options: argparse.Namespace) -> None:
    with locked(state.root):
        began = time.monotonic()
        started = lifecycle.up(state, _design(options))
        _report("cluster up" if started else "cluster was up", began)
        _refresh(state)


def _down(state: State, options: argparse.Namespace) -> None:
    with locked(state.root):
        began = time.monotonic()
        lifecycle.down(state)
        _report("cluster down", began)


def _install(state: State, options: argparse.Namespace) -> None:
    with locked(state.root):
        _refresh(state)


def _refresh(state: State) -> None:
    began = time.monotonic()
    if install.refresh(state):
        _report("runner installed at /opt/runner", began)


def _report(what: str, began: float) -> None:
    print(f"{what} ({time.monotonic() - began:.1f} s)", file=sys.stderr)


def _status(state: State, options: argparse.Namespace) -> None:
    rows = lifecycle.status(state)
    if not rows:
        raise ClusterError("the cluster is down; start it: python3 -m tests.cluster up")
    print(f"{'NODE':10} {'ADDRESS':12} {'PID':>8} SLURM")
    for row in rows:
        print(f"{row.name:10} {row.address:12} {row.pid or 'dead':>8} {row.slurm}")


def _exec(state: State, options: argparse.Namespace) -> None:
    term = os.environ.get("TERM", "")
    _become(nodes.enter_argv(state, options.node, options.argv, options.user, term))


def _shell(state: State, options: argparse.Namespace) -> None:
    # script(1) gives the shell a pty of the node, which job control and srun --pty need.
    options.argv = ["script", "-qec", "bash -l", "/dev/null"]
    _exec(state, options)


def _become(argv: list[str]) -> None:
    sys.stdout.flush()
    os.execvp(argv[0], argv)


COMMANDS = {
    "possible": _possible,
    "up": _up,
    "down": _down,
    "status": _status,
    "shell": _shell,
    "exec": _exec,
    "install": _install,
    "rootfs": _rootfs,
    "toolbox": _toolbox,
    "runner": _runner,
}


def main() -> int:
    """Run one command; 1 when it failed, 2 when this machine or the usage does not allow it."""
    options = parser().parse_args()
    try:
        host.require_root()
        COMMANDS[options.command](State.locate(options.state), options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
