"""Many runs: those that agree are one array, and all of them are submitted or none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.core import job_record
from runners.core.command_line import PROJECT, CommandLine, Given
from runners.core.errors import SystemFault
from runners.core.job_record import ArrayPaths, JobPaths, JobState
from runners.core.model import Resources, SchedulerName
from runners.core.plan import Plan
from runners.core.remedy import change
from runners.core.shell import Result
from runners.core.site import Site
from runners.jobs import find_run
from runners.launching import job_array, run_folder, submit
from runners.launching.run_folder import Draft
from runners.schedulers import local, pbs, slurm, slurm_script
from runners.script import render
from runners.settings import suggest, sweep
from runners.settings.sweep import SweepRequest, SweepRun

from .. import sentences
from ..plans import planned
from ..script.test_render import IMAGE, SITE, SPEC


def on(plan: Plan, scheduler: str) -> Plan:
    return replace(plan, launching=replace(plan.launching, scheduler=SchedulerName(scheduler)))


def made(folder: Path, site: Site = SITE, **changes: Any) -> Plan:
    return planned(SPEC, site, runs_dir=folder, **changes, image=IMAGE)


def drafted(plans: Sequence[Plan], tasks: Sequence[int] | None = None) -> list[Draft]:
    """Drafts of plans that may differ, as those of a study do."""
    stem, drafts = job_record.next_folder(plans[0].spec.runs_dir, plans[0].spec.name), []
    for place, plan in enumerate(plans):
        number = tasks[place] if tasks else None
        paths = JobPaths(stem.with_name(f"{stem.name}_{place if number is None else number}"))
        drafts.append(Draft(plan, paths, render.render(plan, paths, os.getcwd()), task=number))
    return drafts


def test_runs_of_a_study_share_code_only_with_those_that_have_the_same(tmp_path: Path) -> None:
    plans = [replace(made(tmp_path), brings_recipe=brings) for brings in (False, True, True)]
    drafts = drafted(plans)
    for draft in drafts:
        draft.paths.root.mkdir()
    run_folder.write_all(drafts)
    has = [(draft.paths.code / "recipes").is_dir() for draft in drafts]
    assert has == [False, True, True]
    first, second = (draft.paths.code / "recipes" / "distributed.py" for draft in drafts[1:])
    assert first.samefile(second)


def test_each_run_knows_the_command_that_launches_it_alone(tmp_path: Path) -> None:
    before = CommandLine("launch", (), (("wait", True),))
    given = (Given("nodes", 2), Given("mem", "1G", PROJECT, "runner.toml"))
    trainer = replace(SPEC.trainer, typed="torch_mnist", args=("--seed", "7"))
    one = made(tmp_path, trainer=trainer, settings=given)
    asked = sweep.variants("%1", ("base-lr=1,2",))
    drafts = submit.drafts_of(one, before, asked)
    assert alone(drafts[1]) == "runner launch --nodes 2 --wait torch_mnist -- --seed 7 --base-lr=2"
    assert " --seed 7 --base-lr=2 &\n" in drafts[1].text
    (seventh,) = submit.drafts_of(one, before, SweepRequest([SweepRun(7)], None))
    assert alone(seventh) == (
        "runner launch --nodes 2 --env SLURM_ARRAY_TASK_ID=7 --wait torch_mnist -- --seed 7"
    )
    assert "APPTAINERENV_SLURM_ARRAY_TASK_ID=7" in seventh.text


def alone(draft: run_folder.Draft) -> str:
    """The command that is offered of a run, by its record."""
    draft.paths.root.mkdir()
    run_folder.record(draft, "1")
    return suggest.text(change(), job_record.load(draft.paths).typed)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is run instead of Slurm's commands, which are not on every machine."""
    seen: list[list[str]] = []

    def run(argv: Sequence[str], **_: Any) -> Result:
        seen.append(list(argv))
        if argv[0] == "sbatch":
            if "huge" in Path(argv[2]).read_text():
                return Result(1, "", "sbatch: error: Requested node configuration is not available")
            return Result(0, f"{100 * len(seen)}\n", "")
        said = "MaxArraySize = 4\nMaxJobCount = 9\n" if argv[1:] == ["show", "config"] else " UP"
        return Result(0, said, "")

    monkeypatch.setattr("runners.core.shell.run", run)
    return seen


def submitted(calls: list[list[str]]) -> int:
    return len([argv for argv in calls if argv[0] == "sbatch"])


def test_what_agrees_is_one_array_and_the_rest_apart(
    tmp_path: Path, calls: list[list[str]]
) -> None:
    two, one = made(tmp_path), made(tmp_path, resources=Resources(nodes=1))
    found = job_array.submit_all(drafted([two, one, two, two]), at_once=2)
    assert submitted(calls) == 2
    assert [job.id for job in found] == ["300_0", "500", "300_1", "300_2"]
    assert {job.array for job in found} == {"torch_mnist-1"}
    array = ArrayPaths(tmp_path / "torch_mnist-1")
    assert "#SBATCH --array=0-2%1\n" in array.script.read_text()
    assert (array.tasks / "1").resolve() == tmp_path / "torch_mnist-1_2"
    assert found[2].log == str(tmp_path / "torch_mnist-1_2" / "logs" / "job.log")
    assert job_record.next_folder(tmp_path, "torch_mnist").name == "torch_mnist-2"


def test_more_than_an_array_takes_is_split_and_more_than_slurm_takes_refused(
    tmp_path: Path, calls: list[list[str]]
) -> None:
    found = job_array.submit_all(drafted([made(tmp_path)] * 6))
    assert submitted(calls) == 2
    assert [job.id.partition("_")[2] for job in found] == ["0", "1", "2", "3", "0", "1"]
    assert (tmp_path / "torch_mnist-1" / "2" / "tasks" / "1" / "job.sbatch").is_file()
    with sentences.raises("array-too-many-jobs"):
        job_array.submit_all(drafted([made(tmp_path)] * 9))
    with sentences.raises("array-number-too-high", "--array 0-3"):
        job_array.submit_all(drafted([made(tmp_path)], [4]))


def test_a_slurm_that_tells_no_limits_has_its_defaults(
    tmp_path: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.schedulers.slurm.query", lambda argv: "")
    with sentences.raises("array-number-too-high", "--array 0-1000"):
        job_array.submit_all(drafted([made(tmp_path)], [1001]))


def test_a_machine_without_slurm_prints_an_array_for_slurms_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert slurm.SlurmArrays().largest(4, 3) == slurm.MOST_TASKS


def test_a_refusal_takes_all_back(tmp_path: Path, calls: list[list[str]]) -> None:
    plans = [made(tmp_path), made(tmp_path, resources=Resources(comment="huge"))]
    with sentences.raises("job-refused"):
        job_array.submit_all(drafted(plans))
    assert calls[-1][0] == "scancel"
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_cannot_be_cancelled_hides_neither_the_cause_nor_the_others(
    tmp_path: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def cancel(id: str) -> None:
        tried.append(id)
        if len(tried) == 1:
            raise SystemFault("scancel failed")

    monkeypatch.setattr(slurm.SCHEDULER, "cancel", cancel)
    sizes = [made(tmp_path), made(tmp_path, resources=Resources(nodes=1))]
    plans = [*sizes, made(tmp_path, resources=Resources(comment="huge"))]
    with sentences.raises("job-refused") as told:
        job_array.submit_all(drafted(plans))
    assert len(tried) == 2
    assert f"could not be cancelled: {tried[0]}" in told.value.evidence
    assert tried[1] not in told.value.evidence


def test_a_folder_of_another_launch_is_left_alone(tmp_path: Path, calls: list[list[str]]) -> None:
    drafts = drafted([made(tmp_path)] * 2)
    drafts[1].paths.root.mkdir()
    (drafts[1].paths.root / "theirs").touch()
    with sentences.raises("taken"):
        job_array.submit_all(drafts)
    assert [path.name for path in tmp_path.iterdir()] == ["torch_mnist-1_1"]
    assert (drafts[1].paths.root / "theirs").exists()
    assert submitted(calls) == 0
    other = run_folder.draft(made(tmp_path))
    other.paths.root.mkdir()
    with pytest.raises(run_folder.Taken):
        job_array.submit_all([other])
    assert other.paths.root.is_dir()
    drawn = [other, run_folder.draft(made(tmp_path))]
    (job,) = run_folder.with_retries(lambda: job_array.submit_all([drawn.pop(0)]))
    assert job.name == "torch_mnist"
    assert drawn == []


def test_what_runs_at_a_terminal_is_checked_as_a_job_is(tmp_path: Path) -> None:
    draft = run_folder.draft(made(tmp_path, output=str(tmp_path / "absent" / "a.log")))
    with sentences.raises("job-output-folder-missing"):
        run_folder.write_alone(draft)
    assert not draft.paths.root.exists()


def test_one_output_for_all_is_refused(tmp_path: Path) -> None:
    with sentences.raises("array-output-pattern"):
        job_array.batches(drafted([made(tmp_path, output="all.log")] * 2))
    with sentences.raises("array-output-pattern"):
        job_array.batches(drafted([made(tmp_path, error="%x_%j.err")] * 2))
    one = made(tmp_path, output="%x-%A_%a.log")
    assert run_folder.expand(one.spec.output or "", "7_3", "n") == "n-7_3.log"


def test_without_arrays_each_run_is_a_job(tmp_path: Path) -> None:
    cobalt = on(made(tmp_path), "cobalt")
    drafts = [replace(draft, plan=cobalt) for draft in drafted([made(tmp_path)] * 3)]
    assert [batch.array for batch in job_array.batches(drafts)] == [None, None, None]
    with sentences.raises("no-job-arrays"):
        job_array.batches(drafts, at_once=2)


def test_pbs_has_a_range_and_its_own_numbers() -> None:
    polaris = on(made(Path("/r")), "pbs")
    text = "\n".join(
        [*pbs.PbsArrays().script(polaris, ArrayPaths(Path("/r/a b-1")), range(8), 3, "/w"), ""]
    )
    assert "#PBS -J 0-7%3\n" in text
    assert "exec bash -l '/r/a b-1/tasks'/\"$PBS_ARRAY_INDEX\"/job.sbatch\n" in text
    assert pbs.PbsArrays().task_id("123[].pbs-01", 4) == "123[4].pbs-01"
    assert pbs.PbsArrays().whole_id("123[4].pbs-01") == "123[].pbs-01"
    assert slurm.SlurmArrays().whole_id("123_4") == "123"
    ids = ["123[4].pbs-01", "123[5].pbs-01", "99.pbs-01"]
    assert pbs.SCHEDULER.states_argv(ids)[1:] == [
        *("-x", "-t", "-f", "-F", "json"),
        *("123[].pbs-01", "99.pbs-01"),
    ]
    assert find_run.number("123[4].pbs-01") == "123"


@pytest.mark.parametrize(
    ("tasks", "text"), [([0], "0"), ([0, 1, 2], "0-2"), ([1, 3, 4, 9], "1,3-4,9")]
)
def test_indices(tasks: list[int], text: str) -> None:
    assert slurm_script.indices(tasks) == text


def test_before_an_array_has_begun_all_its_tasks_wait(tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text("sleep 30\n")
    id = local.SCHEDULER.submit(ArrayPaths(tmp_path), tmp_path / "log")
    assert [told.state for told in local.SCHEDULER.states([f"{id}_0", f"{id}_1"]).values()] == [
        *[JobState.PENDING] * 2
    ]
    local.SCHEDULER.cancel(id)
    os.waitpid(int(id.split("-")[1]), 0)


def test_a_process_that_is_no_array_any_more_has_no_tasks() -> None:
    gone = f"local-{os.getpid()}-1"
    assert local.SCHEDULER.states([f"{gone}_0", gone]) == {}
    with sentences.raises("job-gone"):
        local.SCHEDULER.cancel(f"{gone}_0")
