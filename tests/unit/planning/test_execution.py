"""Ranks in an allocation, and what a container or an environment has for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.model import (
    Dataset,
    ImageInfo,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import ChoiceId
from runners.core.site import Profile
from runners.core.trainer import Framework, Trainer
from runners.planning import solver
from runners.planning.case import Case

from .. import sentences
from ..plans import planned
from .slurm_site import IMAGE, INSIDE, SITE, SPEC, inside


@pytest.mark.parametrize(
    ("args", "tasks", "trainer_args", "warned"),
    [
        (("--contain", "--bind=/x"), 2, (), True),
        (("-C", "--bind=/x"), 1, ("--num-workers", "4"), True),
        (("--contain", "--bind=/x"), 1, ("--workers=0",), False),
        (("--bind=/x",), 2, (), False),
    ],
)
def test_a_container_apart_has_its_own_shared_memory(
    args: tuple[str, ...], tasks: int, trainer_args: tuple[str, ...], warned: bool
) -> None:
    trainer = Trainer("t", None, Path("/t.py"), trainer_args)
    resources = Resources(ntasks_per_node=tasks)
    spec = replace(SPEC, image=IMAGE, trainer=trainer, resources=resources, apptainer_args=args)
    told = [sentences.told(warning) for warning in planned(spec, SITE).warnings]
    apart = ("contained-memory", "--apptainer-arg=--bind=/x, leave out --apptainer-arg")
    assert told == ([apart] if warned else [])


@pytest.mark.parametrize(
    ("asked", "unasked", "ranks"),
    [
        (Resources(nodes=2), frozenset(), 4),
        (Resources(nodes=2, ntasks_per_node=4), frozenset({"ntasks-per-node"}), 4),
        (Resources(nodes=2, ntasks_per_node=1), frozenset(), 2),
        (Resources(nodes=2, ntasks=3), frozenset(), 3),
    ],
)
def test_without_a_number_an_allocation_says_how_many_ranks_a_node_has(
    asked: Resources, unasked: frozenset[str], ranks: int
) -> None:
    made = inside(asked, unasked, tasks=2)
    assert not made.refusals
    assert made.resources.tasks == ranks


@pytest.mark.parametrize(
    ("asked", "unasked", "nodes"),
    [
        (Resources(), frozenset({"nodes"}), 2),
        (Resources(), frozenset(), 1),
        (Resources(ntasks=1), frozenset({"nodes"}), 1),
        (Resources(nodelist="n2"), frozenset({"nodes"}), 1),
    ],
)
def test_without_a_number_an_allocation_gives_all_its_nodes(
    asked: Resources, unasked: frozenset[str], nodes: int
) -> None:
    assert inside(asked, unasked).resources.nodes == nodes


def test_steps_count_the_nodes_that_an_allocation_gives() -> None:
    profile = Profile("x", env_several_nodes={"NCCL_NET": "IB"})
    site = replace(INSIDE, allocated_nodes=3, profile=profile)
    image = replace(IMAGE, size=10**9, offset=49152, filesystem="nfs4")
    data = Dataset("d", Path("/d"), size=5 * 10**9, files=1)
    spec = replace(
        SPEC,
        image=image,
        scheduler=SchedulerName.ALLOCATION,
        launcher=LauncherName.HOROVODRUN,
        stage_image=None,
        stage_data=None,
        data=(data,),
    )
    made = solver.solve(Case(spec, site, unasked=frozenset({"nodes"})))
    assert made.resources.nodes == 3
    chosen = {choice.id: choice for choice in made.choices}
    assert chosen[ChoiceId.NETWORK_INTERFACES].value == "detected on the nodes"
    assert "NCCL_NET" in {variable.name for variable in made.variables}
    assert made.ssh
    assert ChoiceId.SSH in chosen
    assert "3 nodes on nfs4" in chosen[ChoiceId.STAGE_IMAGE].reason
    assert "for 3 nodes" in chosen[ChoiceId.STAGE_DATA].reason


def test_an_environment_without_the_trainers_framework() -> None:
    bare = ImageInfo(Path("/e"), inspected={"torch.version": "none"})
    spec = replace(
        SPEC, runtime=RuntimeName.NONE, trainer=replace(SPEC.trainer, requires=Framework.PYTORCH)
    )
    refusals = planned(spec, SITE, image=bare).refusals
    install = "/e/bin/python -m pip install torch"
    assert sentences.told(refusals[0]) == ("framework-missing", install)
