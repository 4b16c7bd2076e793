"""Judges the whole job: rank 0's shim receives all ranks' reports, and ends a wrong training.

The other ranks' shims pass on what their trainers report, and what the ranks used, through the
run's rendezvous; rank 0's verdict comes back the same way. No trainer waits for it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from ...contract import node_use, run_files, use_summary
from ...contract.enums import GATED
from ...contract.exit_codes import EXIT_DIFFERENT, EXIT_WORLD_SIZE
from ...contract.failure_kinds import FailureKind
from ...contract.world_causes import ON_PURPOSE, why_several
from .. import records
from ..one_model import weight_causes, weight_reports
from ..one_model.weight_reports import WeightReports
from ..one_model.weights import LAST_TRACED, WeightResult, WeightsVerdict
from ..problems import Problem
from . import failures, reports, world_messages
from .gate_settings import GateSettings
from .reports import Inbox, RankReport, ReportState
from .worlds import Membership, State, WorldVerdict, judge

if TYPE_CHECKING:
    from .rendezvous.session import RendezvousSession

SECONDS_FOR_OTHERS = 30.0  # that rank 0 waits at its end for the others' last reports
# On their way through rank 0's own proxy and hub, on a busy node. So long rank 0 also waits at its
# end for independent ranks, for which its job waits anyway, unless all have left or one has failed.
SECONDS_FOR_LAST_WORDS = 10.0
TICK_SECONDS = 0.05


@dataclass
class ReportedWorld:
    """The reports of a framework's processes; `by` names what forms the world.

    `entering` is how many processes of each task are still in the framework's init, `right` whether
    the user was told that it is one world.
    """

    by: str
    members: set[Membership] = field(default_factory=set)
    entering: dict[int, int] = field(default_factory=dict)
    right: bool = False


class Referee:
    """Passes one rank's reports on and obeys verdicts; on rank 0 it also gives them.

    `end` ends the trainer. `code` is the exit code for a wrong training, else 0. Without a
    `session` all processes are this task's.
    """

    def __init__(
        self,
        settings: GateSettings,
        inbox: Inbox,
        session: RendezvousSession | None,
        end: Callable[[], None],
    ) -> None:
        self.settings, self.inbox, self.session, self.end = settings, inbox, session, end
        self.code = 0
        self.worlds: dict[str, ReportedWorld] = {}  # by the framework
        self.weights = WeightReports()
        self.used: dict[int, Mapping[str, Any]] = {}  # by the rank, its last report
        if not settings.task.rank:
            records.forget(settings.run_dir, run_files.WEIGHTS)
            records.forget(settings.run_dir, run_files.USE)
        self.gone = {0}  # tasks that have told their last

    def poll(self) -> None:
        """Pass on the trainer's reports, and act on mail from other ranks."""
        for report in self.inbox.unread_reports():
            if self.settings.check:
                self._send(report)
        self._read_mail()

    def tell_use(self, fields: Mapping[str, Any]) -> None:
        """Report what this rank has used so far; rank 0 writes the reports of all to a file."""
        self._send(RankReport(ReportState.USE, fields=fields))
        if not self.settings.task.rank:
            self._keep_use()

    def last(self) -> None:
        """Report that this rank's trainer has ended well; on rank 0 wait for the others."""
        if self.code:
            return
        self.poll()
        self._send(RankReport(ReportState.ENDED), last=True)
        if self.settings.task.rank:
            return
        check = self.settings.check
        # Without the check the ranks may have nothing to do with each other.
        self._wait(self._all_gone, SECONDS_FOR_OTHERS if check else SECONDS_FOR_LAST_WORDS)
        # What a rank told last may come after the end of its connection was seen.
        self._wait(self._all_told, SECONDS_FOR_LAST_WORDS)
        if check and not self.code:
            self._judge_at_end()
        sizes = [member.size for world in self.worlds.values() for member in world.members]
        if not self.code and max(sizes, default=1) > 1:
            self._judge_weights(over=True)
        if not self.code:
            self._keep_use(at_end=True)

    def _keep_use(self, at_end: bool = False) -> None:
        """Write what the ranks used to a file; at the end to the result and the log too."""
        nodes, run_dir = node_use.of_nodes(self.used), self.settings.run_dir
        findings = use_summary.findings(nodes)
        value = node_use.as_value(nodes, findings)
        records.keep(run_dir, run_files.USE, value, in_result="use" if at_end else "")
        if at_end:
            file = f"{run_dir}/{run_files.USE}"
            print(*use_summary.lines(nodes, findings, file), sep="\n", flush=True)

    def _wait(self, enough: Callable[[], bool], seconds: float) -> None:
        """Read mail until it is enough, or the training is found to be wrong."""
        until = time.monotonic() + seconds
        self._read_mail()
        while not self.code and not enough() and time.monotonic() < until:
            time.sleep(TICK_SECONDS)
            self._read_mail()

    def _all_told(self) -> bool:
        """Whether each rank has sent its last report, or none will."""
        if self.session is None or self.session.hub is None:
            return True
        others_failed = failures.of_others(self.settings.task, self.settings.run_dir)
        return others_failed or len(self.gone) >= self.settings.task.size

    def _all_gone(self) -> bool:
        """Whether no other rank is left that could send a report."""
        hub = self.session and self.session.hub
        left = (
            {rank for rank, member in hub.table.members.items() if member.ended} if hub else set()
        )
        return self._all_told() or len(self.gone | left) >= self.settings.task.size

    def _send(self, report: RankReport, last: bool = False) -> None:
        if self.session is None:
            self._heard(self.settings.task.rank, report)
            return
        with contextlib.suppress(OSError):  # rank 0 has ended: nobody is there to decide
            self.session.tell(report.as_text(), last)

    def _read_mail(self) -> None:
        while self.session is not None and self.session.mail:
            sender, value = self.session.mail.popleft()
            if sender is None:
                self._obey(json.loads(value))
            elif report := reports.parse(value):
                self._heard(sender, report)

    def _heard(self, task: int, report: RankReport) -> None:
        if report.state == ReportState.ENDED:
            self.gone.add(task)
        elif report.state == ReportState.USE:
            self.used[task] = report.fields
        elif report.state == ReportState.FORMED:
            self._formed(task, report)
        elif report.state == ReportState.WEIGHTS:
            self.weights.hear(report.fields)
            if report.fields["step"] == LAST_TRACED:
                self._judge_weights(over=False)

    def _formed(self, task: int, report: RankReport) -> None:
        fields = report.fields
        world = self.worlds.setdefault(report.framework, ReportedWorld(str(fields["by"])))
        world.members.add(Membership(task, int(fields["rank"]), int(fields["size"])))
        world.entering[task] = int(fields["entering"])
        verdict = judge(world.members, self.settings.task.size, sum(world.entering.values()))
        if verdict.state is State.WRONG:
            self._refuse(report.framework, verdict)
        elif verdict.state is State.RIGHT:
            self._accept(world, verdict.size)

    def _accept(self, world: ReportedWorld, size: int) -> None:
        """Print once that it is one world."""
        if not world.right and size > 1:
            print(world_messages.formed(size, size, world.by), flush=True)
        world.right = True

    def _judge_at_end(self) -> None:
        verdicts: dict[str, WorldVerdict] = {}
        for framework, world in self.worlds.items():
            verdict = verdicts[framework] = judge(world.members, self.settings.task.size)
            if verdict.state is State.RIGHT:
                self._accept(world, verdict.size)
        if verdicts and not any(world.right for world in self.worlds.values()):
            self._refuse(*next(iter(verdicts.items())))

    def _judge_weights(self, over: bool) -> None:
        verdict, facts = self.weights.verdict(over)
        if verdict.result is WeightResult.DIFFERENT:
            self._refuse_weights(verdict, facts)
        elif over:
            print(weight_reports.lines(verdict), flush=True)
        if over or verdict.result is WeightResult.DIFFERENT:
            weight_reports.keep(verdict, self.settings.run_dir)

    def _refuse_weights(self, verdict: WeightsVerdict, facts: Mapping[str, Any]) -> None:
        framework = next((group for group in GATED if group in self.worlds), "")
        cause, remedy = weight_causes.cause_of(verdict, framework, facts)
        fields = {"parameter": verdict.parameter, "cause": cause, "remedy": remedy}
        remedy = f"{remedy}\n  {ON_PURPOSE}"
        problem = Problem(FailureKind.DIFFERENT_WEIGHTS, verdict.text, fields)
        self._pronounce(EXIT_DIFFERENT, problem, cause, remedy)

    def _refuse(self, framework: str, verdict: WorldVerdict) -> None:
        tasks = self.settings.task.size
        text = f"{tasks} tasks were started, but not one {framework} world: {verdict.why}"
        fields = {"tasks": tasks, "world": verdict.size, "framework": framework, "why": verdict.why}
        problem = Problem(FailureKind.SEVERAL_WORLDS, text, fields)
        self._pronounce(EXIT_WORLD_SIZE, problem, *why_several(framework))

    def _pronounce(self, code: int, problem: Problem, cause: str, remedy: str) -> None:
        """End all ranks with a code and a problem."""
        value = {"code": code, "problem": vars(problem), "cause": cause, "remedy": remedy}
        if self.session is not None:
            with contextlib.suppress(OSError):
                self.session.decide(json.dumps(value))
        self._obey(value)

    def _obey(self, value: dict[str, Any]) -> None:
        if self.code:
            return
        self.code, task = int(value["code"]), self.settings.task
        problem = Problem.of_data(value["problem"])
        what = f"runner: rank {task.name}: {problem.text}"
        words = world_messages.explained(self.settings, what, (value["cause"], value["remedy"]))
        print(words + "\n", end="", flush=True)
        failures.record(task, self.code, problem, self.settings.run_dir)
        self.end()
