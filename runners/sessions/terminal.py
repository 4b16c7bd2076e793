"""Terminal sessions: a command in a running job, or a script in an allocation."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace

from ..core import quoting, shell, trust
from ..core.errors import NotFound, Refused, SystemFault, UsageError
from ..core.job_record import Job, JobPaths, JobState
from ..core.progress import Listener
from ..jobs import job_status
from ..launching import run_folder
from ..launching.run_folder import Draft
from ..monitoring import wording
from ..schedulers import SCHEDULERS, slurm, slurm_script
from . import session_script

SECONDS_BETWEEN_QUESTIONS = 10.0
INTERRUPTED = 130
SHELL = ["sh", "-c", "if command -v bash > /dev/null; then exec bash; fi; exec sh"]
SCRIPT = 2  # words of the command line that are salloc's command


class TerminalAllocation:
    """One allocation: waits for it, tells of it, gives the terminal to its script."""

    def __init__(self, draft: Draft, listener: Listener) -> None:
        """`listener` is told why the job waits, each answer once, and when it has its nodes."""
        self.draft, self.listener = draft, listener
        self.job: Job | None = None
        self.granted, self.asked_at, self.last_told = False, 0.0, ""
        self.output: list[str] = []  # salloc's lines

    def run(self) -> int:
        """Write the run's folder, wait, run the script; return its exit code.

        When the wait ended without nodes, by Ctrl-C or `runner cancel`, it is INTERRUPTED. Raises
        Refused with the scheduler's words when there is no job, and removes the folder.
        """
        run_folder.write_alone(self.draft)
        argv = session_script.allocation(self.draft.plan, self.draft.paths)
        try:
            env = slurm_script.scrubbed(os.environ)
            code = shell.attend(argv, SCRIPT, env, self._read, self._tick)
        finally:
            if self.job is None:
                shutil.rmtree(self.draft.paths.root)
        if self.job is None:
            output = "\n".join(self.output)
            remedy = slurm.listing_command(output)
            raise Refused("Slurm refused the allocation", output, remedy, id="allocation-refused")
        if self.granted:
            return code
        replace(self.job, state=JobState.CANCELLED.name).save(self.draft.paths)
        return INTERRUPTED

    def _read(self, line: str) -> None:
        """Read a line of salloc's: the job's number, and whether the job has its nodes."""
        parsed = slurm_script.parse_salloc(line)
        self.output.append(line)
        if parsed and self.job is None:
            self.job = run_folder.record(self.draft, parsed[0])
        if self.job and parsed and parsed[1]:
            self.granted = True
            self.listener.tell(f"job {self.job.id} has its nodes, until this command ends")

    def _tick(self) -> None:
        waited = time.monotonic() - self.asked_at
        if not self.job or self.granted or waited <= SECONDS_BETWEEN_QUESTIONS:
            return
        self.asked_at = time.monotonic()
        try:
            status = job_status.status(self.draft.paths, self.job)
        except SystemFault:
            return  # salloc waits for the controller too, and says what it must
        reason = f" ({status.reason})" if status.reason else ""
        text = f"{wording.beside(self.job, status)}{reason}; Ctrl-C gives it up"
        if text != self.last_told:
            self.last_told = text
            self.listener.tell(text)


def chosen(nodes: Sequence[str], wanted: Sequence[str], all_nodes: bool) -> tuple[str, ...]:
    """Return the nodes for a command: the first, all, or those wanted.

    Raises UsageError for both at once, NotFound for nodes of others.
    """
    if wanted and all_nodes:
        raise UsageError("--nodelist and --all exclude each other", id="nodelist-and-all")
    if not wanted:
        return tuple(nodes) if all_nodes else tuple(nodes[:1])
    missing = [name for name in wanted if name not in nodes]
    if missing:
        what = " and ".join(missing)
        raise NotFound(
            f"{what} is not among the job's nodes",
            f"it runs on {', '.join(nodes)}",
            id="node-not-of-job",
        )
    return tuple(dict.fromkeys(wanted))


def within(words: Sequence[str]) -> list[str]:
    """Return the command to run in a container: a shell where there are no words."""
    if words and words[0] in ("mpirun", "mpiexec"):
        # Called by its full path, as Apptainer does, Open MPI's would put its own folder before
        # the environment's on the ranks' PATH, as with --prefix.
        return ["env", *words]
    return list(words) or SHELL


def run(
    paths: JobPaths,
    job: Job,
    words: Sequence[str],
    *,
    nodelist: str | None = None,
    all_nodes: bool = False,
    pty: bool = False,
    host: bool = False,
) -> int:
    """Run a command in a running job, or a shell, with our own terminal; return its exit code.

    Raises UsageError for a run of another user: what leads into the container lies there.
    """
    trust.check(paths.root, os.environ)
    if not host and not paths.enter.exists():
        raise Refused(
            f"{paths.root} does not say how to get into its container",
            "",
            "--host",
            id="container-entry-missing",
        )
    steps = SCHEDULERS[job.scheduler].STEPS
    if steps is None:
        inside = "" if host else f" bash {quoting.quote(str(paths.enter))}"
        what = f"{job.scheduler} has no way into a job that is known here"
        raise Refused(
            what,
            "",
            f"ssh NODE{inside} COMMAND, where the site allows it",
            id="exec-not-of-scheduler",
        )
    location = steps.location(job.id)
    nodes = chosen(location.nodes, steps.names(nodelist) if nodelist else (), all_nodes)
    command = within(words)
    inner = command if host else ["bash", str(paths.enter), *command]
    line = steps.argv(location._replace(nodes=nodes), inner, pty, labelled=True)
    return shell.hand_over(line, steps.environment())
