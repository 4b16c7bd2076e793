"""Sessions without ranks: their plan; a shell on nodes; a kernel for another Jupyter server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core import quoting, shell
from ..core.command_line import CommandLine
from ..core.errors import Refused
from ..core.job_record import JobPaths, next_folder
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import change
from ..core.site import Site
from ..launching import gather, run_folder
from ..launching.run_folder import Draft
from ..schedulers import capabilities
from ..settings import suggest
from . import kernel, session_script, terminal
from .kernel import Kernel


@dataclass(frozen=True)
class SessionRequest:
    """Settings by name, and the command that asks for them.

    A server listens to its own node alone where `loopback`. A dry run neither pulls the image nor
    reads it whole.
    """

    flags: Mapping[str, Any]
    typed: CommandLine
    dry_run: bool = False
    loopback: bool = False


@dataclass(frozen=True)
class PreparedSession:
    """What a session starts from: its plan, the site, the run's folder."""

    plan: Plan
    site: Site
    paths: JobPaths


def prepare(name: str, request: SessionRequest, listener: Listener) -> PreparedSession:
    """Plan a session; raise Refused for one that cannot work, with what makes it work."""
    plan, here = gather.session(name, request.flags, request.dry_run, listener)
    if plan.refusals:
        from ..launching import working_remedies  # for a mistake only

        raise working_remedies.refused(plan, request.typed)
    paths = JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name))
    return PreparedSession(session_script.of(plan, os.getcwd()), here, paths)


def draft_shell(
    request: SessionRequest, words: Sequence[str], pty: bool, listener: Listener
) -> Draft:
    """Return the draft of an allocation in which one command runs, or a shell; raise Refused."""
    ready = prepare("shell", request, listener)
    command = terminal.within(words)
    text = session_script.interactive(ready.plan, ready.paths, os.getcwd(), command, pty)
    return Draft(ready.plan, ready.paths, text, request.typed)


class ShellEnd(NamedTuple):
    """How a shell ended: its exit code, and the scheduler's last line where it got no nodes."""

    code: int
    last_words: str = ""


def open_shell(draft: Draft, listener: Listener) -> ShellEnd:
    """Write a shell's folder, wait for its nodes where one can, give it the terminal.

    Raises Refused where the scheduler gives no shell, or no nodes.
    """
    scheduler = capabilities(draft.plan.launching.scheduler)
    if scheduler.allocates:
        allocation = terminal.TerminalAllocation(draft, listener)
        code = allocation.run()
        return ShellEnd(code, "" if allocation.granted else allocation.output[-1])
    in_shell = session_script.in_shell(draft.paths)
    if scheduler.queue and not scheduler.interactive:
        raise Refused(
            f"{scheduler.title}: runner cannot wait for nodes at a terminal",
            "its own command gives a shell on a node",
            "runner shell --scheduler local, there",
            id="shell-not-of-scheduler",
        )
    run_folder.write_alone(draft)
    if scheduler.interactive:
        listener.tell(f"on the node, type: {quoting.join(in_shell)}")
    return ShellEnd(shell.hand_over(session_script.allocation(draft.plan, draft.paths)))


def draft_kernel(request: SessionRequest, name: str, listener: Listener) -> Kernel:
    """Return a kernel of that name, in the image; raise UsageError for the name, and Refused."""
    folder = kernel.folder(name)
    plan = prepare("jupyter", request, listener).plan
    return kernel.draft(name, folder, plan, suggest.text(change(), _without_values(request.typed)))


def _without_values(typed: CommandLine) -> CommandLine:
    """Return what was typed, of --env the names alone: the values stand in a file of their own."""
    settings = [
        setting._replace(value=str(setting.value).partition("=")[0])
        if setting.name == "env"
        else setting
        for setting in typed.settings
    ]
    return replace(typed, settings=tuple(settings))
