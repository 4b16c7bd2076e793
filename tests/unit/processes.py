"""Why unit tests start processes; a file without a reason here may start none by `subprocess`.

A test with a process takes 20 to 200 ms of the CPU, one without some 5.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

REASONS = {
    "signals, exit codes, forks and locks are of processes": """
        cli/test_runs containers/test_build containers/test_build_again containers/test_steps
        core/test_signals doctor/test_facts images/test_store jobs/test_find_and_status
        recipes/test_run sites/test_probe""",
    "the shim is the parent of a trainer": """
        injob/test_commands injob/test_gate injob/test_hardware injob/test_network
        injob/test_rank_environment injob/test_signals injob/test_ssh injob/test_stage
        injob/test_supervise injob/test_temporary injob/test_usage injob/test_usage_readings
        injob/test_visible_gpus monitoring/test_stall_notice monitoring/test_stalls""",
    "bash reads what we wrote": """
        images/test_recorded_digest launching/test_job_array planning/test_requeue
        planning/test_stage_image runtimes/test_runtimes script/test_render
        script/test_signals_at_the_end script/test_step_end sessions/test_session_script
        settings/test_suggest settings/test_tuning""",
    "a job of this machine is a process": """
        launching/test_api sessions/test_sessions""",
    "a new interpreter shows what is imported, and how much memory is used": """
        batch_scripts/test_convert_batch_script cli/test_addons explain/test_read_log
        project/test_gpu_check settings/test_trainers tests/test_convert_command""",
    "a look into an image or an environment is a script": """
        containers/test_derive containers/test_foreign_horovod containers/test_host_environment
        containers/test_into_environment images/test_default_environment images/test_environment
        images/test_probe_build launching/test_plan_document launching/test_submit
        launching/test_working_remedies""",
    "git names the commit that a build records": """
        containers/test_arm containers/test_base_image containers/test_options
        containers/test_wheel images/test_build""",
    "matplotlib lists the machine's fonts, the first time": """
        scale/test_command scale/test_results""",
    "pip, gcc and strip are the behaviour": """
        containers/test_locks containers/test_slim""",
    "make and .ci/run are tried as they are typed": """
        project/test_makefile project/test_races project/test_without_root""",
    "a program is asked that answers, is another version, or is not there": """
        cli/test_compare cli/test_plan cli/test_trainer_words doctor/test_command doctor/test_job
        containers/test_machine images/test_metadata images/test_oci_image
        launching/test_at_once planning/test_gpu
        schedulers/test_schedulers schedulers/test_slurm_answers schedulers/test_slurm_submit
        sites/test_new""",
    "this rule is tried": """
        project/test_processes""",
    "another site is a variable of the whole command": """
        sites/test_remote_site""",
}
FILES = frozenset(" ".join(REASONS.values()).split())


@contextmanager
def allowed_with_a_reason(test: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that starts a process though its file has no reason."""
    file = f"{test.parent.name}/{test.stem}"
    started: list[Any] = []
    if file not in FILES:
        start = subprocess.Popen.__init__

        def noted(process: subprocess.Popen[Any], args: Any, *rest: Any, **options: Any) -> None:
            started.append(args)
            start(process, args, *rest, **options)

        monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    yield
    assert not started, f"{file} starts a process without a reason in {__file__}"
