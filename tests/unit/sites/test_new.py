"""`runner sites new`: what a machine tells becomes a profile without fault; the other commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from runners.cli.machine.sites import sites_command
from runners.core.errors import Refused, UsageError
from runners.core.model import RuntimeName, SchedulerName
from runners.core.site import Partition, Site
from runners.settings import config_files
from runners.sites import create_profile, load
from runners.sites.create_profile import ProfileFact

from ..programs import program
from .profiles import SHIPPED, environment
from .profiles import write as write_file

TODAY = "2026-11-21"
KINDS = (
    Partition("cpu", 2, 8, (), "1-00:00:00", True),
    Partition("gpu", 2, 64, (("A100", 4),), "infinite"),
    Partition("odd name", 2, 64, (("a100_1g.5gb", 7), ("", 2)), "30:00"),
    Partition("many", 2, 64, (("A40", 4),), "30:00"),
    Partition("many", 2, 16, (("T4", 8),), "30:00"),
    Partition("many", 2, 32, (("T4", 8),), "30:00"),
    Partition("many", 2, 256, (), "30:00"),
)
SLURM = Site(
    (SchedulerName.SLURM,),
    runtimes=(RuntimeName.APPTAINER,),
    cluster_name="kit",
    partitions=(*KINDS[:3], KINDS[4]),
)
MACHINES = {
    "slurm": create_profile.Machine(
        SLURM, {"SelectType": "select/cons_tres"}, "login1", "/s", KINDS
    ),
    "linear": create_profile.Machine(SLURM, {"SelectType": "select/linear"}, "login1", ""),
    "silent slurm": create_profile.Machine(Site((SchedulerName.SLURM,)), {}, "login1", ""),
    "pbs": create_profile.Machine(Site((SchedulerName.PBS,)), {}, "Login1.Site", "/s"),
    "slingshot": create_profile.Machine(SLURM, {}, "login1", "", KINDS, ("slingshot",)),
    "nothing": create_profile.Machine(Site(()), {}, "laptop", "/home/ada/.cache"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_what_a_machine_tells_passes_lint(tmp_path: Path, name: str) -> None:
    machine = MACHINES[name]
    text = create_profile.text("a title", machine, TODAY)
    path = write_file(tmp_path, "new", text)
    assert load.faults(path, environment(tmp_path)) == []


def test_what_is_in_it(tmp_path: Path) -> None:
    machine = MACHINES["slurm"]
    text = create_profile.text("a title", machine, TODAY)
    write_file(tmp_path, "new", text)
    made = load.profile("new", environment(tmp_path))
    assert made.scheduler == "slurm"
    assert made.detect.clusters == ("kit",)
    assert made.rules.gpu_request == "gpus-per-node"
    assert made.rules.max_time == {"cpu": "1-00:00:00", "odd name": "30:00", "many": "30:00"}
    assert [(kind.name, kind.cpus, kind.gpus, kind.gpu_type) for kind in made.nodes] == [
        ("cpu", 8, 0, ""),
        ("gpu", 64, 4, "A100"),
        ("odd name-a100_1g.5gb-7", 64, 7, "a100_1g.5gb"),
        ("odd name-gpu-2", 64, 2, ""),
        ("many-A40-4", 64, 4, "A40"),
        ("many-T4-8", 16, 8, "T4"),
        ("many-cpus-256", 256, 0, ""),
    ]
    assert made.paths == {"scratch": "/s"}
    assert made.sources["nodes.gpu.cpus"].text == "sinfo on login1"
    assert made.sources["nodes.gpu.cpus"].date == TODAY


def test_without_a_default_partition_one_is_required() -> None:
    partition = Partition("a", 1, 8, (), "infinite")
    machine = create_profile.Machine(
        Site((SchedulerName.SLURM,), partitions=(partition,)), {}, "h", ""
    )
    required = [fact.path for fact in create_profile.facts(machine) if fact.path[0] == "rules"]
    assert ("rules", "require", "partition", "remedy") in required


@pytest.mark.parametrize(
    "value",
    ["plain", 'quote " and \\', "tab\tline\n", "한글 é", "\x7f", ["a", "b'"], ("t",), 3, True],
)
def test_values_come_back_from_the_file(tmp_path: Path, value: Any) -> None:
    text = create_profile.tables([ProfileFact(("env", "a key"), value, "s")], TODAY)
    table = config_files.read_toml(write_file(tmp_path, "p", text))
    assert table["env"]["a key"] == (list(value) if isinstance(value, tuple) else value)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {**environment(tmp_path), "PATH": "/usr/bin:/bin"}.items():
        monkeypatch.setenv(name, value)
    for name in ("RUNNER_SITE", "NERSC_HOST", "SLURM_CLUSTER_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(sites_command, words)


def test_list(runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NERSC_HOST", "perlmutter")
    rows = {row["name"]: row for row in json.loads(run("--json").stdout)}
    assert set(SHIPPED) < set(rows)
    assert rows["perlmutter"]["in_force"] == "NERSC_HOST is perlmutter"
    assert rows["perlmutter"]["never_run"] == ["shifter", "podman-hpc"]
    assert rows["neuron"]["in_force"] == ""
    assert "NERSC_HOST is perlmutter" in run().stdout


def test_list_where_no_site_is_known(runner: Path) -> None:
    assert "none is in force here" in run().output


def test_show(runner: Path) -> None:
    shown = json.loads(run("show", "neuron", "--json").stdout)
    values = {row["key"]: row for row in shown["values"]}
    assert values["scheduler"]["file"] == "runners/sites/slurm.toml"
    assert values["launch.partition"]["value"] == "amd_a100nv_8"
    assert all(row["source"] and row["date"] for row in values.values())
    assert "amd_a100nv_8" in run("show", "neuron").stdout
    assert "rendered, and never run" in run("show", "polaris").output


def test_lint_lists_every_fault_and_exits_with_2(runner: Path) -> None:
    path = write_file(runner, "bad", "one = 1\ntwo = 2\n")
    done = run("lint", str(path))
    assert done.exit_code == 2
    assert done.output.count("unknown key") == 2
    assert json.loads(run("lint", str(path), "--json").stdout)[str(path)]
    assert run("lint").exit_code == 2
    path.unlink()
    assert run("lint").output.endswith("without fault\n")


def test_new_is_written_once_and_whole(runner: Path) -> None:
    done = run("new", "mine")
    path = runner / "runner" / "sites" / "mine.toml"
    assert done.stdout.splitlines()[0] == str(path)
    assert run("lint", str(path)).exit_code == 0
    path.write_text("# mine\n")
    assert isinstance(run("new", "mine").exception, Refused)
    assert path.read_text() == "# mine\n"
    assert run("new", "mine", "--force").exit_code == 0
    assert "title" in path.read_text()
    assert [file.name for file in path.parent.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("name", ["../x", "a b", ".hidden"])
def test_a_name_that_is_none(runner: Path, name: str) -> None:
    done = run("new", name)
    assert isinstance(done.exception, UsageError)


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Put stand-ins for Slurm's commands before all others."""
    for name, script in {"sbatch": "", "srun": "echo '	none'", **scripts}.items():
        program(folder / "bin" / name, script)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")


CONFIG = "echo 'ClusterName = kit'; echo 'SelectType = select/cons_tres'"


@pytest.mark.parametrize(
    ("sinfo", "told"),
    [
        ("echo what is this", "sinfo printed what runner does not read: what is this"),
        ("exec sleep 9", "sinfo: no answer within"),
        ("echo broken >&2; exit 1", "sinfo: broken"),
    ],
)
def test_what_slurm_does_not_tell_is_left_out_and_said(
    runner: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str, told: str
) -> None:
    commands(runner, monkeypatch, scontrol=CONFIG, sinfo=sinfo)
    monkeypatch.setattr("runners.sites.probe.SECONDS_TO_ANSWER", 1)
    monkeypatch.setattr("runners.sites.find_site.SECONDS", 2)
    done = run("new")
    assert f"left out: {told}" in done.output
    path = runner / "runner" / "sites" / "kit.toml"
    assert load.faults(path, environment(runner)) == []
    assert 'clusters = ["kit"]' in path.read_text()
    assert "the cluster calls itself kit" in run().output


def test_a_controller_that_hangs_is_said(runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands(runner, monkeypatch, scontrol="exec sleep 9")
    monkeypatch.setattr("runners.sites.find_site.SECONDS", 0.5)
    done = run()
    assert done.exit_code == 0
    assert "scontrol did not tell the cluster's name: no answer within" in done.output
    assert "alvis" in done.output
