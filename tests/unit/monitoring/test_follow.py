"""What of a job's log is shown to who follows it."""

from __future__ import annotations

from pathlib import Path

from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName
from runners.monitoring.follow import Follower, Screen

NOISE = """\
0@n1 | WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
0@n1 | I0000 00:00:1764180000.1 7 port.cc:153] oneDNN custom operations are on. You may see \
slightly different numerical results due to floating-point round-off errors. To turn them off, set \
the environment variable `TF_ENABLE_ONEDNN_OPTS=0`.
0@n1 | [W1126 18:00:00.1 socket.cpp:767] [c10d] The hostname of the client socket cannot be \
retrieved. err=-3
1@n2 | I0000 00:00:1764180000.1 7 cpu_feature_guard.cc:227] This TensorFlow binary is optimized \
to use available CPU instructions in performance-critical operations.
1@n2 | To enable the following instructions: AVX2 FMA, in other operations, rebuild \
TensorFlow with the appropriate compiler flags.
"""
SIGNAL = """\
0@n1 | step 1/2
To enable the following instructions: AVX2, rebuild TensorFlow with flags: no rank's
1@n2 | W0000 00:00:1764180000.1 7 allocator.cc:1] Allocation of 1 exceeds 10% of free memory
"""


class Seen(Screen):
    """A screen that keeps what it is to show."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.lines: list[bytes] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, lines: list[bytes]) -> None:
        self.lines += lines


def test_what_frameworks_say_at_each_start_is_left_out_and_that_is_said_once(
    tmp_path: Path,
) -> None:
    paths = JobPaths(tmp_path / "train-1")
    paths.log.parent.mkdir(parents=True)
    follower = Follower(
        paths, Job("1", "train", SchedulerName.SLURM, str(paths.log), 1.0, ""), None, None
    )
    screen = Seen()
    for text in (NOISE, SIGNAL, NOISE):
        with paths.log.open("a") as file:
            file.write(text)
        follower._pass_on(screen)
    assert b"\n".join(screen.lines).decode() + "\n" == SIGNAL
    assert sum("stay in the log alone" in text for text in screen.said) == 1
