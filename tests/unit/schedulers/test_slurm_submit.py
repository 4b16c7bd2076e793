"""What sbatch is told, and what its answers mean."""

from __future__ import annotations

import pytest

from runners.core import shell
from runners.core.shell import Result
from runners.schedulers import slurm
from runners.schedulers.slurm_script import scrubbed

from .. import sentences


def test_slurm_that_takes_no_more_jobs_is_told_from_one_that_is_silent() -> None:
    """Its sbatch tries again and again, for minutes."""
    words = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"
    with pytest.raises(shell.NoAnswer) as late:
        shell.run(["sh", "-c", f"echo '{words}' >&2; exec sleep 9"], timeout=0.5)
    assert late.value.evidence == words
    full = slurm.no_answer(late.value.what, late.value.evidence)
    assert sentences.told(full)[0] == "slurm-full"
    silent = slurm.no_answer("sbatch did not answer within 60 s", "")
    assert sentences.told(silent)[0] == "slurm-submit-silent"


def test_submit_answers() -> None:
    assert slurm.parse_submit(Result(0, "42\n", "")) == "42"
    assert slurm.parse_submit(Result(0, "42;cluster\n", "")) == "42"
    with sentences.raises("job-refused", "sinfo --summarize"):
        slurm.parse_submit(Result(1, "", "sbatch: error: invalid partition specified: x\n"))


def test_a_silent_controller() -> None:
    up = Result(0, "Slurmctld(primary) at login is UP\n", "")
    slurm.check_controller(up)
    with sentences.raises("slurm-controller-silent"):
        slurm.check_controller(Result(1, "Slurmctld(primary) at login is DOWN\n", ""))


def test_inherited_variables_do_not_reach_sbatch() -> None:
    env = {"SLURM_JOB_ID": "1", "SBATCH_PARTITION": "x", "SLURM_CONF": "/c", "PATH": "/bin"}
    own = {"PMIX_MCA_psec": "native"}
    assert scrubbed({**env, **own}) == {"SLURM_CONF": "/c", "PATH": "/bin", **own}
