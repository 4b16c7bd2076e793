"""Detects stalls of a job that runs, by asking its nodes, and a limit that comes before its end.

A trainer with metrics has stalled when it made no step for long. Of any other script nobody knows
what progress is: it has stalled when it wrote no line for long, and its ranks, asked twice, have
not moved. Nothing is done to the job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from ..contract.parts import RAS, SAMPLE
from ..core import atomic, files, shell, trust
from ..core.errors import RunnerError
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.progress import Listener
from ..core.text import span
from ..jobs import metrics_tail
from ..jobs.metrics_tail import Reading
from ..schedulers import SCHEDULERS
from ..settings import config
from . import rank_samples, stalls
from .rank_samples import RankSample
from .stalls import LastProgress, Stall

SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_BETWEEN_SAMPLES = 30.0  # at most: as long as a job may be without progress
SECONDS_ASKED = 60.0  # without a line, after which somebody who asks is told
SECONDS_FOR_THE_STEP = 20.0
TAIL = 2**16  # bytes of the log, in which Horovod may have named the missing ranks
FILE, FORM = "stall.json", 1


class Stalls:
    """Looks now and then at a job that is followed; says each stall once, and that it is over."""

    def __init__(self, paths: JobPaths, job: Job, after: float | None = None) -> None:
        self.paths, self.job = paths, job
        self.limit = limit(after)
        self.apart = min(SECONDS_BETWEEN_SAMPLES, self.limit)
        self.looked = 0.0
        self.last: LastProgress | None = None
        self.reported: LastProgress | None = None  # the last progress of the stall that was told
        self.samples: list[RankSample] = []
        self.due = 0.0  # when to sample the ranks again
        self.first: Reading | None = None
        self.too_short = False  # whether that was said

    def news(self, now: Status) -> str:
        """Return what there is to say, "" mostly."""
        between = min(SECONDS_BETWEEN_LOOKS, self.apart)
        if now.state != JobState.RUNNING or time.monotonic() - self.looked < between:
            return ""
        self.looked = time.monotonic()
        stall = self.poll()
        if self.reported and self.last != self.reported:
            self.reported = None
            step = self.last.step if self.last else None
            return "it goes on" + ("" if step is None else f": step {step}")
        if stall is None or self.reported:
            return self._too_short(metrics_tail.last(self.paths), now.left)
        self.reported = self.last
        return "\n".join([stalls.in_words(stall), *stalls.table(stall)])

    def _too_short(self, reading: Reading | None, left: float | None) -> str:
        """Say once that the job reaches its limit first; a job that is requeued resumes."""
        if reading is None or self.too_short or self.job.requeue_limit:
            return ""
        self.first = self.first or reading
        needed = stalls.short_of_time(self.first, reading, left)
        self.too_short = needed is not None
        if needed is None:
            return ""
        return (
            f"at this pace the training needs {span(needed)} more, and its limit comes in "
            f"{span(left)}: a longer --time, or --requeue, which resumes from checkpoints"
        )

    def poll(self) -> Stall | None:
        """Look once; return the stall that is known by now, if there is one.

        Its nodes are asked no more often than needed: a step of Slurm's each time.
        """
        last = _progress(self.paths, self.job)
        if last is None:
            return None
        if self.last and (last.step, last.line) == (self.last.step, self.last.line):
            last = self.last  # the log may have grown by what is no progress
        else:
            self.samples, self.due = [], 0.0
        self.last = last
        seconds = time.time() - last.time
        if last.step is not None:
            quiet = seconds < self.limit or self.reported == last
            return None if quiet else self._stall(seconds, _samples(self.paths, self.job))
        if seconds < self.limit - self.apart or self.reported == last:
            return None
        return self._of_stacks()

    def _of_stacks(self) -> Stall | None:
        """Return the stall of a job whose ranks have not moved since they were sampled."""
        if time.monotonic() < self.due:
            return None
        before, samples = self.samples, _samples(self.paths, self.job)
        last, reported = _progress(self.paths, self.job), self.last
        assert reported
        if last is None or last.line != reported.line:
            return None
        seconds, still = time.time() - reported.time, rank_samples.stand_still(before, samples)
        # Ranks that print nothing but move are left alone for a while.
        self.samples = [] if before and not still else samples
        self.due = time.monotonic() + (self.apart if self.samples else self.limit)
        return self._stall(seconds, samples) if still and seconds >= self.limit else None

    def _stall(self, seconds: float, samples: Sequence[RankSample]) -> Stall:
        ras = _ask_ras(self.paths, self.job, samples)
        assert self.last
        lines = files.tail(Path(self.job.log), TAIL).decode("utf-8", "replace").splitlines()
        stall = stalls.of_ranks(seconds, self.last, lines, samples, ras)
        _keep(self.paths, samples, ras, stall)
        return stall


def limit(after: float | None = None) -> float:
    """Return after how many seconds without progress a job has stalled: a flag's, or a setting."""
    return float(
        after or config.load({}, os.environ, strict=False).get("stall-after") or stalls.SECONDS
    )


def of_job(paths: JobPaths, job: Job) -> Stall | None:
    """Return the stall of a job that runs, with who lags; of a script only that it is quiet."""
    last, seconds = _progress(paths, job), limit()
    if last is None or time.time() - last.time < seconds:
        return None
    if last.step is not None:
        return Stalls(paths, job).poll()
    return Stall(time.time() - last.time, None, f"`runner explain {job.id}` asks its ranks")


def asked(paths: JobPaths, job: Job, listener: Listener) -> Stall | None:
    """Return the same for somebody who asks and waits until the ranks have been sampled twice."""
    watch = Stalls(paths, job, min(limit(), SECONDS_ASKED))
    stall = watch.poll()
    if stall is None and watch.samples:
        listener.tell(f"the job is quiet: asking its ranks again in {watch.apart:.0f} s")
        time.sleep(watch.apart)
        stall = watch.poll()
    return stall


def _progress(paths: JobPaths, job: Job) -> LastProgress | None:
    """Return the last progress; None before the first line."""
    try:
        status = os.stat(job.log)
    except FileNotFoundError:
        return None
    reading = metrics_tail.last(paths)
    tail = files.tail(Path(job.log), TAIL).splitlines(keepends=True)
    return stalls.progress(reading, tail, status.st_size, status.st_mtime)


def _samples(paths: JobPaths, job: Job) -> list[RankSample]:
    return rank_samples.parse(_asked(paths, job, SAMPLE, str(paths.root)))


def _ask_ras(paths: JobPaths, job: Job, samples: Sequence[RankSample]) -> str:
    """Ask NCCL's RAS, which knows of all ranks, on one node; "" where it is not there.

    Not of a rank that is stopped: it would not answer.
    """
    answering = [sample for sample in samples if sample.ras and sample.state not in "Tt"]
    if not answering:
        return ""
    host = answering[0].host
    ports = dict.fromkeys(str(sample.ras) for sample in answering if sample.host == host)
    return _asked(paths, job, RAS, *ports, host=host)


def _asked(paths: JobPaths, job: Job, *words: str, host: str = "") -> str:
    """Run a part of injob on each node, or one, in a step beside the ranks; return what it says.

    Nothing where that cannot be had in time, nor of another user's run: its own code is what asks.
    By the host's Python: to start a container may be what does not work any more.
    """
    steps = SCHEDULERS[job.scheduler].STEPS
    if steps is None:
        return ""
    try:
        trust.check(paths.root, os.environ)
        place = steps.location(job.id)
        place = place._replace(nodes=(host,)) if host else place
        argv = steps.argv(place, ["python3", str(paths.injob), *words])
        return shell.run(argv, steps.environment(), timeout=SECONDS_FOR_THE_STEP).out
    except RunnerError:  # what is known without it is said
        return ""


def _keep(paths: JobPaths, samples: Sequence[RankSample], ras: str, stall: Stall) -> None:
    """Write the stall, each rank's stack, and NCCL's answer, into the run's folder.

    They are for its owner alone.
    """
    texts = {f"rank-{sample.rank}.txt": rank_samples.report(sample) for sample in samples}
    texts.update({stalls.RAS_FILE: ras} if ras else {})
    if not texts:
        return
    paths.stacks.mkdir(0o700, exist_ok=True)
    for name, text in texts.items():
        atomic.write_text(paths.stacks / name, text, private=True)
    rows = [row._asdict() for row in stall.rows]
    value = {**vars(stall), "rows": rows}
    files.write_versioned(paths.stacks / FILE, FORM, value, private=True)


def last_known(paths: JobPaths, job: Job) -> Stall | None:
    """Return the stall that was told of a job before it ended; None where it went on since."""
    try:
        value = files.read_versioned(paths.stacks / FILE, FORM)
        if value is None:
            return None
        stall = stalls.read(value)
        if stall.step is not None:
            reading = metrics_tail.last(paths)
            return stall if reading and reading.step == stall.step else None
        with open(job.log, "rb") as log:
            log.seek(stall.line)
            return None if stalls.went_on(stall, log.read(TAIL)) else stall
    except (OSError, RunnerError, *files.DAMAGED):  # such as another user's
        return None
