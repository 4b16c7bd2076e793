"""Sources of settings: their order, their origins, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.core.command_line import FLAG, SITE
from runners.settings import config

from .. import sentences

pytestmark = pytest.mark.usefixtures("here")


def load(flags: dict[str, object] | None = None, **env: str) -> config.Config:
    return config.load(flags or {}, {"XDG_CONFIG_HOME": "config", **env})


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def test_each_source_wins_over_the_one_before() -> None:
    assert load().get("nodes") == 1
    preset = config.check_table("recipe x", {"nodes": 2})
    assert config.load({}, {}, preset).get("nodes") == 2
    write("config/runner/runner.toml", "[launch]\nnodes = 3\n")
    assert config.load({}, {"XDG_CONFIG_HOME": "config"}, preset).get("nodes") == 3
    write("runner.toml", "[launch]\nnodes = 4\n")
    assert load().get("nodes") == 4
    assert load(RUNNER_NODES="5").get("nodes") == 5
    assert load({"nodes": 6}, RUNNER_NODES="5").get("nodes") == 6


def test_origins_name_the_source() -> None:
    write("runner.toml", '[launch]\npartition = "gpu"\n')
    origins = load({"account": "p1"}, RUNNER_QOS="high", SBATCH_TIMELIMIT="10").origins
    assert origins("partition") == "runner.toml"
    assert origins("qos") == "RUNNER_QOS"
    assert origins("time") == "SBATCH_TIMELIMIT"
    assert origins("account") == "command line"
    assert origins("scheduler") == "default"


def test_lists_add_up_in_order() -> None:
    write("runner.toml", '[launch]\nbind = ["/a"]\nenv = { A = "1,2" }\n')
    merged = load({"bind": ["/b"], "env": ["B=2"]})
    assert merged.get("bind") == ["/a", "/b"]
    assert merged.get("env") == ["A=1,2", "B=2"]
    assert merged.origins("bind") == "runner.toml, command line"


@pytest.mark.parametrize(
    ("mine", "loaded"),
    [
        (["singularity/4.1.0"], ["gcc/10", "singularity/4.1.0", "cuda"]),
        (["apptainer"], ["gcc/10", "apptainer", "cuda"]),
        (
            ["gcc", "cmake", "gcc/12"],
            ["gcc", "singularity/3.11.0|apptainer", "cuda", "cmake", "gcc/12"],
        ),
        (["cuda|apptainer/1"], ["gcc/10", "cuda|apptainer/1"]),
        (["gcc-libs"], ["gcc/10", "singularity/3.11.0|apptainer", "cuda", "gcc-libs"]),
    ],
)
def test_a_module_takes_the_place_of_a_sites_of_its_name(
    mine: list[str], loaded: list[str]
) -> None:
    site = ["gcc/10", "singularity/3.11.0|apptainer", "cuda"]
    layers = [
        config.ConfigLayer(SITE, {"module": site}, "site x"),
        config.ConfigLayer(FLAG, {"module": mine}),
    ]
    merged = config.merge(layers)
    assert merged.get("module") == loaded
    assert sorted(str(setting.value) for setting in merged.given) == sorted(loaded)
    assert [setting.value for setting in merged.given if setting.origin == FLAG] == mine


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("[launch]\npartitoin = 'x'\n", "table-invalid"),
        ("[lunch]\n", "toml-key-unknown"),
        ("nodes = 2\n", "toml-key-unknown"),
        ("[launch]\nnodes = '2'\n", "table-invalid"),
        ("[launch]\nnodes = true\n", "table-invalid"),
        ("[launch]\nexclusive = 1\n", "table-invalid"),
        ("[launch]\nbind = '/a'\n", "table-invalid"),
        ("[launch]\ncontroller = 'mpich'\n", "table-invalid"),
        ("[launch\n", "toml-malformed"),
    ],
)
def test_a_faulty_file_is_refused(text: str, id: str) -> None:
    write("runner.toml", text)
    with sentences.raises(id):
        load()


def test_a_faulty_variable_is_refused_by_its_name() -> None:
    with sentences.raises("table-invalid"):
        load(RUNNER_NODES="two")


def test_variables_of_others_are_left_alone() -> None:
    assert "temp" not in load(RUNNER_TEMP="/x", RUNNER_OS="Linux").values


def test_runs_are_below_the_current_folder_unless_another_is_named() -> None:
    assert load().runs_dir == Path.cwd() / "runs"
    assert load(RUNNER_RUNS_DIR="/scratch/ada").runs_dir == Path("/scratch/ada")
