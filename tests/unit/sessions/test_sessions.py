"""Sessions: which way leads to a shell, what a server's job sees, which runs TensorBoard shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.core.command_line import CommandLine, Given
from runners.core.job_record import Job, JobPaths
from runners.core.model import BindMount, SchedulerName
from runners.core.progress import Listener
from runners.launching.run_folder import Draft
from runners.sessions import open_session, servers
from runners.sessions.open_session import SessionRequest, ShellEnd
from runners.sessions.servers import ServerDraft

from .. import sentences
from ..listener import Told
from ..programs import environment, program, sandbox

HERE: dict[str, Any] = {"runtime": "none", "scheduler": "local", "image": "env"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an image and a Python environment; stand-ins for qsub and Apptainer."""
    sandbox(tmp_path / "sandbox", {"horovod.version": "0.28.1"})
    environment(tmp_path / "env")
    (tmp_path / "bin").mkdir()
    stand_ins = {
        "qsub": 'grep "^#PBS" "$2"; echo "$1"; bash "$2"; exit 7',
        "apptainer": 'echo apptainer "${@: -2}"',
    }
    for name, text in stand_ins.items():
        program(tmp_path / "bin" / name, f"#!/bin/bash\n{text}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("runners.planning.staging.NODE_LOCAL", ())  # the nodes see /tmp here
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(*words: str, **flags: Any) -> Draft:
    request = SessionRequest(flags, CommandLine("shell"))
    return open_session.draft_shell(request, words, False, Listener())


def test_on_pbs_a_terminal_gets_the_nodes_shell(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = Told()
    draft = shell("ls", "a b", scheduler="pbs", image="sandbox", nodes=2)
    assert open_session.open_shell(draft, told) == ShellEnd(7)
    assert told.texts == [f"on the node, type: bash {folder}/runs/shell-1/job.sbatch"]
    out = capfd.readouterr().out
    assert "#PBS -l select=2" in out
    assert out.endswith("-I\napptainer ls a b\n")


def test_without_a_scheduler_a_command_runs_here(capfd: pytest.CaptureFixture[str]) -> None:
    told = Told()
    draft = shell("bash", "-c", "echo here; exit 5", **HERE)
    assert open_session.open_shell(draft, told) == ShellEnd(5)
    assert capfd.readouterr().out == "here\n"
    assert told.texts == []


def test_a_scheduler_without_a_terminal_gives_no_shell(folder: Path) -> None:
    program(folder / "bin" / "cqsub", "#!/bin/bash\n")
    program(folder / "bin" / "mpirun", "#!/bin/bash\necho 'mpirun (Open MPI) 4.1.4'\n")
    draft = shell(scheduler="cobalt", launcher="mpirun", image="sandbox")
    with sentences.raises("shell-not-of-scheduler", "runner shell --scheduler local, there"):
        open_session.open_shell(draft, Listener())
    assert not draft.paths.root.exists()


def test_what_cannot_work_is_refused_before_anything_is_written(folder: Path) -> None:
    with sentences.raises("one-machine", "--scheduler pbs", "--nodes 1 --ntasks 2"):
        shell(**HERE, nodes=2)
    assert not (folder / "runs").exists()


def run(name: str, submitted: float = 1.0, **facts: Any) -> JobPaths:
    """Write the record of a run."""
    paths = JobPaths(Path("runs", name).absolute())
    paths.root.mkdir(parents=True)
    Job("1", name, SchedulerName.LOCAL, "", submitted, **facts).save(paths)
    return paths


def tensorboard(*names: str, **flags: Any) -> ServerDraft:
    shown = servers.runs_to_show(names, Path("runs").absolute())
    return servers.tensorboard(SessionRequest(flags, CommandLine(), True), shown, Listener())


def test_tensorboard_shows_the_last_run_that_has_written() -> None:
    for number in (1, 2, 3):
        run(f"a-{number}", submitted=number)
    with sentences.raises("no-tensorboard-runs"):
        servers.runs_to_show((), Path("runs"))
    for name in ("a-1", "a-2"):
        JobPaths(Path("runs", name)).tensorboard.mkdir()
    assert [paths.root.name for paths, _ in servers.runs_to_show((), Path("runs"))] == ["a-2"]
    profile_of(JobPaths(Path("runs", "a-3")))
    assert [paths.root.name for paths, _ in servers.runs_to_show((), Path("runs"))] == ["a-3"]
    named = servers.runs_to_show(("a-3", "a-1"), Path("runs"))
    assert [paths.root.name for paths, _ in named] == ["a-3", "a-1"]


def profile_of(run: JobPaths) -> None:
    (run.profile / "rank-0" / "plugins" / "profile" / "2026_11_28").mkdir(parents=True)


def test_a_profile_of_tensorflows_is_something_to_show(folder: Path) -> None:
    first = run("a-1", image=str(folder / "sandbox"))
    profile_of(first)
    warnings = tensorboard("a-1", scheduler="pbs").job.plan.warnings
    assert "no-events" not in [warning.id for warning in warnings]


def test_tensorboard_is_one_task_in_the_image_of_the_first_run(folder: Path) -> None:
    first, second = run("a-1", image=str(folder / "sandbox")), run("a-2", image="other")
    second.tensorboard.mkdir()
    made = tensorboard("a-1", "a-2", scheduler="pbs", **{"cpus-per-task": None, "image": None})
    plan, resources = made.job.plan, made.job.plan.resources
    assert plan.spec.image.path == folder / "sandbox"
    assert (resources.nodes, resources.tasks, resources.cpus_per_task) == (1, 1, 1)
    seen = {BindMount(str(paths.root), str(paths.root), read_only=True) for paths in made.runs}
    assert made.runs == (first, second)
    assert seen <= set(plan.binds)
    assert sentences.told(plan.warnings[0])[0] == "no-events"


def test_another_users_run_does_not_choose_the_image(folder: Path) -> None:
    theirs = run("a-1", image=str(folder / "sandbox"))
    theirs.root.chmod(0o777)
    with sentences.raises("untrusted"):
        tensorboard("a-1", scheduler="pbs")
    assert tensorboard("a-1", **HERE).job.plan.spec.image.path.name == "env"


def test_options_win_over_the_first_run() -> None:
    run("a-1", image="gone.sif")
    plan = tensorboard("a-1", **HERE, ntasks=2).job.plan
    assert (plan.spec.image.path.name, plan.resources.tasks) == ("env", 2)


def test_an_environment_is_used_as_one(folder: Path) -> None:
    run("a-1", image=str(folder / "env"))
    plan = tensorboard("a-1", scheduler="local").job.plan
    assert (plan.launching.runtime, plan.spec.image.path.name) == ("none", "env")
    assert plan.binds == (), "nothing is bound without a container"


def test_a_run_with_private_variables_is_no_server() -> None:
    """It has a folder for its owner alone too, as a server has."""
    job = Job("1", "t", SchedulerName.LOCAL, "", 1.0, private=True)
    assert servers.session_meant(["t"], [(JobPaths(Path("t")), job)]) is None


def test_one_reconnects_to_a_server_that_is_named_alone() -> None:
    server = (
        JobPaths(Path("t")),
        Job("1", "t", SchedulerName.LOCAL, "", 1.0, typed=CommandLine("jupyter")),
    )
    assert servers.session_meant(["t"], [server]) == server
    assert servers.session_meant(["t", "t"], [server, server]) is None
    assert servers.session_meant([], [server]) is None


def test_a_kernels_command_to_write_it_again_has_no_values(folder: Path) -> None:
    typed = CommandLine("jupyter", (Given("env", "COLOUR=blue"),), (("kernel", "k"),))
    request = SessionRequest({**HERE, "env": ["COLOUR=blue"]}, typed, True)
    made = open_session.draft_kernel(request, "k", Listener())
    assert "runner jupyter --env COLOUR --kernel k" in made.script
    assert "blue" not in made.script + made.spec
