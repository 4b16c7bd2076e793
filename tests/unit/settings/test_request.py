"""What a request may say, and what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from runners.core.command_line import DEFAULT, FLAG, PRESET, PROJECT
from runners.core.errors import Problems
from runners.core.model import BindMount, ImageInfo, JobSpec
from runners.core.trainer import Trainer
from runners.settings import config, request
from runners.settings.table import SETTINGS

from .. import sentences

TRAINER = Trainer("torch_mnist", "recipes.torch_mnist", None)


def spec(**settings: Any) -> JobSpec:
    flags = {name.replace("_", "-"): value for name, value in settings.items()}
    merged = config.merge(
        [config.ConfigLayer(DEFAULT, config.DEFAULTS), config.ConfigLayer(FLAG, flags)]
    )
    return of_settings(merged)


def of_settings(merged: config.Config, trainer: Trainer = TRAINER) -> JobSpec:
    resources = request.resources(merged, bool(trainer.command))
    return request.job_spec(merged, resources, ImageInfo(Path("/images/a.sif")), trainer)


@pytest.mark.parametrize(
    ("asked", "tasks"),
    [
        ({}, 1),
        ({"nodes": 2}, 2),
        ({"nodes": 2, "ntasks-per-node": 4}, 8),
        ({"nodes": 2, "ntasks": 3}, 3),
        ({"nodes": 2, "ntasks": 8, "ntasks-per-node": 4}, 8),
        ({"nodes": 3, "gpus-per-node": "A100:4"}, 12),
        ({"gpus-per-node": "2", "ntasks": 1}, 1),
        ({"nodes": 2, "gres": "gpu:A100:2"}, 4),
        ({"nodes": 2, "gpus": "8"}, 8),
    ],
)
def test_number_of_ranks(asked: dict[str, Any], tasks: int) -> None:
    assert spec(**asked).resources.tasks == tasks


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"nodes": 0}, ["number-below-one"]),
        ({"ntasks": -1}, ["number-below-one"]),
        ({"cpus-per-task": 0}, ["number-below-one"]),
        ({"nodes": 4, "ntasks": 2}, ["ntasks-too-few", "--ntasks 4", "--nodes 2"]),
        (
            {"nodes": 2, "ntasks": 3, "ntasks-per-node": 2},
            ["ntasks-contradict", "leave out --ntasks", "--ntasks 4"],
        ),
        ({"gpus-per-node": "A100"}, ["gpus-malformed", "--gpus-per-node A100:1"]),
        ({"gpus-per-node": "A100:0"}, ["gpus-malformed", "--gpus-per-node A100:4"]),
        ({"gpus-per-node": "1g.10gb"}, ["gpus-malformed", "--gpus-per-node 1g.10gb:1"]),
        (
            {"gpus-per-node": "0", "gpus": "2"},
            ["gpus-and-none", "leave out --gpus-per-node", "leave out --gpus"],
        ),
        (
            {"gpus-per-node": "0", "gres": "gpu:2"},
            ["gpus-and-none", "leave out --gpus-per-node", "leave out --gres"],
        ),
        (
            {"gpus-per-node": "2", "gres": "gpu:1"},
            ["gpus-contradict", "leave out --gpus-per-node", "leave out --gres"],
        ),
        ({"nodes": 2, "gpus": "3"}, ["gpus-uneven", "--gpus-per-node 2, leave out --gpus"]),
        ({"time": "1h"}, ["time-malformed", "--time 01:00:00"]),
        ({"time": "1:2:3:4"}, ["time-malformed", "--time 01:00:00"]),
        ({"job-name": "a\nb"}, ["text-not-one-line"]),
        ({"partition": ""}, ["text-not-one-line"]),
        ({"env": ["1A=2"]}, ["env-malformed"]),
        ({"env": ["NOT_SET_HERE"]}, ["env-not-set", "export NOT_SET_HERE=VALUE"]),
        ({"bind": ["/no/such/folder"]}, ["bind-source-missing"]),
        ({"bind": ["/tmp:relative"]}, ["bind-target-relative"]),
        ({"bind": ["/tmp:/a:rx"]}, ["bind-malformed"]),
        ({"bind": [":/a"]}, ["bind-malformed"]),
        ({"bind": ["/tmp:/a:ro:x"]}, ["bind-malformed"]),
        ({"module": ["apptainer|"]}, ["module-malformed"]),
        ({"module": ["a\nrm -r b"]}, ["text-not-one-line"]),
    ],
)
def test_bad_requests(asked: dict[str, Any], told: list[str]) -> None:
    with sentences.raises(*told):
        spec(**asked)


@pytest.mark.parametrize(
    "asked", [{"gpus-per-node": "0", "gres": "gpu:2"}, {"gpus-per-node": "2", "gres": "gpu:0"}]
)
def test_gpus_and_none_are_one_problem(asked: dict[str, Any]) -> None:
    merged = config.merge([config.ConfigLayer(FLAG, asked)])
    problems = Problems()
    request.resources(merged, True, problems)
    assert [error.diagnosis.id for error in problems.found] == ["gpus-and-none"]


@pytest.mark.parametrize("time", ["30", "30:00", "01:30:00", "2-12", "2-12:30", "2-12:30:15"])
def test_slurms_forms_of_time(time: str) -> None:
    assert spec(time=time).resources.time == time


def test_binds() -> None:
    assert request.parse_bind("/tmp") == BindMount("/tmp", "/tmp")
    assert request.parse_bind("/tmp:/data:ro") == BindMount("/tmp", "/data", True)


def test_env_keeps_everything_after_the_first_equals() -> None:
    assert request.parse_env("A=b=c, d\n$e") == ("A", "b=c, d\n$e")


def test_a_variable_without_a_value_is_taken_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "a=b\nc")
    assert request.parse_env("TOKEN_OF_MINE") == ("TOKEN_OF_MINE", "a=b\nc")
    assert request.parse_env("TOKEN_OF_MINE=") == ("TOKEN_OF_MINE", "")


@pytest.mark.parametrize(("gpus", "expected"), [(None, 2), ("4", None)])
def test_a_recipes_cpus_are_for_jobs_without_gpus(gpus: str | None, expected: int | None) -> None:
    recipe = config.ConfigLayer(PRESET, {"cpus-per-task": 2}, "recipe torch_mnist")
    flags = config.ConfigLayer(FLAG, {"gpus-per-node": gpus} if gpus else {})
    merged = config.merge([config.ConfigLayer(DEFAULT, config.DEFAULTS), recipe, flags])
    asked = of_settings(merged)
    assert asked.resources.cpus_per_task == expected


def test_a_session_is_one_task_whatever_its_gpus() -> None:
    merged = config.merge(
        [config.ConfigLayer(DEFAULT, config.DEFAULTS), config.ConfigLayer(FLAG, {"gres": "gpu:2"})]
    )
    asked = of_settings(merged, Trainer("jupyter", None, None))
    assert asked.resources.tasks == 1


def test_what_was_not_typed_has_a_reason() -> None:
    preset = config.ConfigLayer(PRESET, {"cpus-per-task": 2, "time": "30"}, "recipe torch_mnist")
    own = config.ConfigLayer(PROJECT, {"controller": "mpi"}, "runner.toml")
    flags = config.ConfigLayer(FLAG, {"time": "5"})
    merged = config.merge([config.ConfigLayer(DEFAULT, config.DEFAULTS), preset, own, flags])
    assert merged.presets == {"cpus-per-task"}
    assert {"cpus-per-task", "nodes"} < merged.unasked
    assert "controller" not in merged.unasked
    assert merged.reasons() == {
        "cpus-per-task": "the trainer's preset",
        "controller": "from runner.toml",
    }


class Asked(config.Config):
    """Settings that note which of them were asked for."""

    names: ClassVar[set[str]] = set()

    def get(self, name: str) -> Any:
        self.names.add(name)
        return super().get(name)


# Read before there is a request: by launching/ (image, data, site) and by cli/ (stall-after).
READ_ELSEWHERE = {"image", "data", "site", "stall-after"}


def test_each_setting_of_the_table_becomes_part_of_the_request() -> None:
    """A row of the table alone makes an option that is accepted and dropped.

    It goes into `Resources` (core/model.py) if it is the scheduler's, else into `job_spec`.
    """
    merged = config.merge([config.ConfigLayer(DEFAULT, config.DEFAULTS)])
    asked = Asked(merged.values, merged.given)
    of_settings(asked)
    assert set(SETTINGS) - asked.names == READ_ELSEWHERE
