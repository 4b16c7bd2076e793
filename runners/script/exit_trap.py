"""How a job's script ends: what it leaves behind, and how it goes on when it was stopped early.

Facts, tried with proctrack/cgroup. At the time limit and for `scancel`, SIGTERM goes to the script
and to each rank, SIGKILL KillWait seconds later. A preempted job's ranks get SIGTERM GraceTime
seconds before SIGKILL, and its script does not. When the script then ends, Slurm 24.11 and 26.05
queue the job again; 22.05 does not. srun passes SIGUSR1 on to the ranks, while SIGTERM to srun
itself makes it kill them at once.

NOTE: Slurm up to 26.05 (its ticket 25682) may queue a job once more when it ends well after it was
preempted: at the end of GraceTime, or with `scontrol requeue` during it. Such a start ends at once.
"""

from __future__ import annotations

from ..contract import log_text
from ..contract.exit_codes import EXIT_STOPPED
from ..contract.parts import TIDY
from ..core.plan import Plan
from ..schedulers import SCHEDULERS, capabilities

RECORD = """\
# Leave the exit code in the run's folder: it outlives the scheduler's memory of the job.
finish() {{
  code=$?
  # A signal that ends this script itself, while the ranks run, leaves 0.
  if [ "$code" = 0 ] && [ -n "$ranks_run" ]; then code=1; fi
  # Ranks that saved and stopped early end with 0 and leave word of it.
  if [ "$code" = 0 ] && [ -e "$run/stopped.json" ]; then code={stopped}; fi
  printf '{{"ended": %s}}\\n' "$(date +%s.%3N)" >> "$run/starts.jsonl"
{again}\
  printf '{{"form": 1, "exit_code": %d, "time": %d, "began": %s}}\\n' \\
    "$code" "$(date +%s)" "$began" > "$run/exit.json.part" &&
    mv "$run/exit.json.part" "$run/exit.json"
  # Ranks that were killed have left their temporary folders.
  {unless}timeout 60 {tidy} 2> /dev/null
  # A full disk leaves half of it, and so does a rank that was killed while it saved.
  rm -f "$run"/*.json.part "$run"/checkpoints/.*.part
  exit "$code"
}}
"""
AGAIN = """\
  if [ "$code" = {stopped} ] && again; then exit "$code"; fi
"""
REQUEUE = """\
# The last task of an array has the array's own number, by which all of its tasks are meant.
job=${{SLURM_ARRAY_JOB_ID:+${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID}}
job=${{job:-$SLURM_JOB_ID}}
# Queue the job again, unless it was cancelled.
again() {{
  [ -z "$told_to_end" ] || return 1
{preempted}\
  if [ "${{SLURM_RESTART_COUNT:-0}}" -ge {limit} ]; then
    echo "runner: stopped early, and all {limit} restarts are used; go on: sbatch $run/job.sbatch"
    return 1
  fi
  scontrol requeue "$job"
}}
"""
PREEMPTED = """\
  # Slurm itself does so when a preempted job's script has ended.
  case $(scontrol show job "$job") in *PreemptTime=[0-9]*) return ;; esac
"""
ENDED_WELL = """\
# Slurm may start a job again that has ended well, when it was preempted before (its ticket 25682).
if [ -n "$SLURM_RESTART_COUNT" ] && grep -qs '"exit_code": 0,' "$run/exit.json"; then exit; fi
"""
START = """\
rm -rf "$run/failures" "$run/exit.json" "$run/result.json" "$run/stopped.json"
began=$(date +%s.%3N)  # what is lost before the first step is counted from here
printf '{"began": %s, "nodes": "%s"}\\n' "$began" "$SLURM_JOB_NODELIST" >> "$run/starts.jsonl"
trap finish EXIT
# Slurm may go on in the same log: what follows is of this start.
[ -z "$SLURM_RESTART_COUNT" ] || """
START += f'echo "{log_text.START}$((SLURM_RESTART_COUNT + 1))"'
SLURM_TELLS_THE_RANKS = "trap : TERM  # Slurm sends it to the ranks too; their end is the job's"
WHILE_IT_WAITS = SLURM_TELLS_THE_RANKS.replace(" :", " warned=yes")
# NOTE: without a trap for it, bash ends by a signal with $? of the command before: 0.
TOLD_TO_END = "trap 'exit 143' TERM"
WARNED = """\
ranks= warned= told_to_end=
# Slurm's warning goes on to the ranks, which save and stop; without ranks there is nothing to save.
warn() {{ warned=yes; if [ -n "$ranks" ]; then kill -USR1 "$ranks"; else exit {stopped}; fi; }}
trap warn USR1
trap 'warned=yes told_to_end=yes' TERM  # Slurm sends it to the ranks too"""
RELAYED = """\
ranks=$!
{watch}\
# Not in `wait`: of a child that ends there as a signal comes, bash may lose the exit code.
exec {{idle}}<> <(:)
while kill -0 "$ranks" 2> /dev/null; do read -rt {look} -u "$idle"; done
# A signal ends `wait` early with a code above 128, and bash 5.2 may give it twice: two waits that
# agree are right. In POSIX mode the second wait for a child would not know it.
set +o posix
last=
until wait "$ranks"; code=$?; [ "$code" -le 128 ] || [ "$code:$warned" = "$last:" ]; do
  last=${{warned:-$code}} warned=
done
{watched}\
ranks= ranks_run=
exit "$code\""""
# NOTE: srun waits for a node whose slurmstepd was killed until the time limit (24.11). What is
# written meanwhile, such as a checkpoint, a log or metrics, is a sign of ranks that go on.
STUCK = """\
# Once a rank has failed, the step has ended soon, unless the slurmstepd of a node is gone. Where
# nothing is written below the run's folder for {seconds} s, it is ended here.
stuck() {{
  ls "$run"/failures/* > /dev/null 2>&1 &&
    new=$(find "$run" -type f -newermt '{seconds} seconds ago' -print -quit) && [ -z "$new" ]
}}
"""
WATCH = """\
{{ [ -z "${{release-}}" ] || exec {{release}}>&-  # else staged files are held as long as it sleeps
  until stuck; do sleep {pause} > /dev/null 2>&1; done
  echo "runner: a rank has failed, and its step does not end: the script ends it"
  kill "$ranks"; sleep {pause}; kill -KILL "$ranks"; }} &
watch=$!
disown "$watch"  # not waited for: a signal that ends `wait` may lose the end of another child
"""
WATCHED = """\
kill "$watch" 2> /dev/null
"""
LONGEST_PAUSE = 30
LOOK = 0.2  # seconds between two looks whether the ranks still run


def opening(plan: Plan) -> list[str]:
    """Return the lines before all work: the record of the end, and the answers to signals."""
    scheduler = capabilities(plan.launching.scheduler)
    requeues = scheduler.warns and plan.interruption.requeue_limit > 0
    preempted = PREEMPTED if plan.interruption.slurm_restarts_preempted else ""
    text = (
        REQUEUE.format(limit=plan.interruption.requeue_limit, preempted=preempted)
        if requeues
        else ""
    )
    again = AGAIN.format(stopped=EXIT_STOPPED) if requeues else ""
    # What an ssh of the job's started is killed at the end of a good job too.
    unless = "" if plan.ssh else f'[ "$code" = 0 ] || [ "$code" = {EXIT_STOPPED} ] || '
    text += RECORD.format(stopped=EXIT_STOPPED, again=again, unless=unless, tidy=_tidy(plan))
    text += (ENDED_WELL if requeues else "") + START
    seconds = plan.interruption.step_end_seconds
    if plan.interruption.signal is not None:
        text += "\n" + WARNED.format(stopped=EXIT_STOPPED)
    elif seconds:
        text += f"\nwarned=\n{WHILE_IT_WAITS}"
    else:
        text += "\n" + (SLURM_TELLS_THE_RANKS if scheduler.signals_ranks else TOLD_TO_END)
    text += "\n" + STUCK.format(seconds=seconds) if seconds else ""
    return text.splitlines()


def _tidy(plan: Plan) -> str:
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    on_each_node = steps.once_per_node(plan.resources.nodes) if steps else ()
    return " ".join([*on_each_node, 'python3 "$run/code/injob"', TIDY])


def around(plan: Plan, command: str) -> list[str]:
    """Return the lines that start the ranks and wait for them."""
    seconds = plan.interruption.step_end_seconds
    if plan.interruption.signal is None and not seconds:
        return ["ranks_run=yes", command, "code=$? ranks_run=", 'exit "$code"']
    watch = WATCH.format(pause=min(seconds, LONGEST_PAUSE)) if seconds else ""
    text = RELAYED.format(watch=watch, look=LOOK, watched=WATCHED if seconds else "")
    return ["ranks_run=yes", f"{command} &", *text.splitlines()]
