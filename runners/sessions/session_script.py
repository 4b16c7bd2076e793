"""Sessions as jobs that start no ranks: their plan and script. Pure."""

from __future__ import annotations

from dataclasses import replace

from .. import runtimes
from ..contract.parts import SERVE
from ..core import quoting
from ..core.command_line import FLAG
from ..core.diagnosis import Diagnosis, warning
from ..core.job_record import JobPaths
from ..core.model import BindMount, RuntimeName
from ..core.plan import ChoiceId, Interruption, Plan
from ..core.quoting import Expanded
from ..planning import requeue
from ..schedulers import SCHEDULERS, capabilities, slurm_script
from ..script import exit_trap, ranks, render, stage_lines

# Choices about ranks, of which a session has none, and about the restarts that it does not get.
ABOUT_RANKS = (
    *requeue.CHOICES,
    ChoiceId.CONTROLLER,
    ChoiceId.GATE,
    ChoiceId.LAUNCHER,
    ChoiceId.MPI,
    ChoiceId.GRADIENT_TRANSPORT,
    ChoiceId.NETWORK_INTERFACES,
    ChoiceId.CPU_BIND,
    ChoiceId.MPI_YIELD_WHEN_IDLE,
    ChoiceId.RECIPE,
)
INTERRUPTIONS = ("requeue", "requeue-limit", "signal")
# In /tmp: the paths of sockets are short, and few shared file systems have any. The folder has its
# name before it exists, so that a signal cannot come between. It goes at once when the job is
# ended, as Slurm may kill the server, and with it this script, and again after the server, which
# may have made it again. Slurm signals once, and a container that is just starting does not pass
# that on: the server is told until it ends, and killed before Slurm's usual 30 s are over. The
# folder is the server's TMPDIR alone: Slurm makes a step's TMPDIR, and so one that is gone.
SERVED = """\
ulimit -c 0  # a core file would have the token in it
own=
tidy() {{  # a kernel that ends as well may write there once more
  for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf ${{own:+"$own"}} "$run/private/address.json" 2> /dev/null && return
    sleep 0.2
  done
}}
end() {{
  trap '' TERM
  tidy
  [ "$!" != "$before" ] || exit 143  # there is no server yet
  for try in {{1..40}}; do
    kill "$!" 2> /dev/null || break
    sleep 0.2
  done
  kill -KILL "$!" 2> /dev/null
  wait "$!"
  code=$?
  tidy
  exit "$code"
}}
before=$!  # of what holds staged files
trap end TERM
own=/tmp/runner-$(od -A n -N 8 -t x8 /dev/urandom | tr -d ' ')
mkdir -m 700 "$own" || exit
TMPDIR="$own" {command} &  # a server that is killed leaves what it had in it
wait "$!"
code=$?
trap : TERM  # what comes now is the script's own end
tidy
(exit "$code")"""


def of(made: Plan, cwd: str) -> Plan:
    """Return the plan for a session: the current folder is seen, and nothing is about ranks.

    It is neither signalled before its end nor requeued: its user would not be there.
    """
    launching = made.launching
    seen = () if launching.runtime is RuntimeName.NONE else (BindMount(cwd, cwd),)
    return replace(
        made,
        binds=(*made.binds, *seen),
        choices=tuple(c for c in made.choices if c.id not in ABOUT_RANKS),
        variables=tuple(v for v in made.variables if v.name != requeue.RESUME),
        ssh=made.resources.nodes > 1
        and runtimes.ssh_possible(made.launching.scheduler, made.launching.runtime),
        interruption=Interruption(requeue=False),
        warnings=(*made.warnings, *_without_effect(made)),
    )


def _without_effect(made: Plan) -> list[Diagnosis]:
    """Return a warning for each option that was typed to signal or requeue a session."""
    typed = [
        setting.name for setting in made.spec.settings if setting.origin == FLAG and setting.value
    ]
    why = "has no effect: a session is neither requeued nor signalled"
    return [
        warning("unused-in-session", f"--{name} {why}") for name in typed if name in INTERRUPTIONS
    ]


def served(plan: Plan, paths: JobPaths, cwd: str, server: str, folder: str, towards: str) -> str:
    """Return the script of a job that serves pages; `towards` is "" for those of its own node."""
    argv = ["bash", str(paths.enter), runtimes.python(plan), str(paths.injob), SERVE]
    argv += [server, str(paths.private), folder, Expanded("$own"), towards]
    return _script(plan, paths, cwd, SERVED.format(command=quoting.join(argv)))


def interactive(plan: Plan, paths: JobPaths, cwd: str, command: list[str], pty: bool) -> str:
    """Return the script of an allocation in which one command runs, on its first node."""
    inside = [*ranks.ssh_around(plan, paths), "bash", str(paths.enter), *command]
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    alone = steps.within(1, pty) if steps else []
    line, again = quoting.join([*alone, *inside]), quoting.join(allocation(plan, paths))
    return _script(plan, paths, cwd, line, again)


def _script(plan: Plan, paths: JobPaths, cwd: str, line: str, by_hand: str = "") -> str:
    """Return the script of a job that runs `line`, which goes by `enter`, and starts no ranks.

    `by_hand` is the command that starts it again, where that is at a terminal.
    """
    return render.joined(
        render.directives(plan, paths, cwd),
        render.header(plan, paths, cwd, at_terminal=by_hand),
        exit_trap.opening(plan),
        stage_lines.of(plan, paths),
        ranks.ssh_nodes(plan),
        exit_trap.around(plan, line),
    )


def allocation(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the command that waits for nodes, where that is possible, and runs the script.

    One that is interactive gives a shell on the node, in which `in_shell` is to be typed.
    """
    scheduler = capabilities(plan.launching.scheduler)
    if scheduler.interactive:
        return [*scheduler.interactive, str(paths.script)]
    waits = slurm_script.salloc(plan) if scheduler.allocates else []
    return [*waits, *in_shell(paths)]


def in_shell(paths: JobPaths) -> list[str]:
    """Return the command that runs the script where one is."""
    return ["bash", str(paths.script)]
