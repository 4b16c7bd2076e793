"""The model of jobs of many nodes: where copying begins to pay, what many ranks cost, its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.contract.enums import Controller
from runners.core.model import Resources
from runners.planning import cost_model
from runners.planning.cost_model import ONE_SERVER, PARALLEL

from .. import sentences
from ..plans import planned
from .test_wireup import NO_MPI, OPENMPI, SITE, SPEC

PAGE = Path(__file__).parents[3] / "docs" / "measurements" / "scale.md"
IMAGE = 487 * 10**6  # bytes of the CPU image that was measured


@pytest.mark.parametrize(("server", "first"), [(ONE_SERVER, 18), (PARALLEL, 131)])
@pytest.mark.parametrize("size", [IMAGE, 4 * 10**9])
def test_copying_pays_from_one_number_of_nodes_on_whatever_the_size(
    server: float, first: int, size: int
) -> None:
    paying = [cost_model.pays(nodes, size, server) for nodes in range(1, 4097)]
    assert paying == [nodes >= first for nodes in range(1, 4097)]
    said = f"from {first} {'nodes on with' if first == 18 else 'on with'}"
    assert said in " ".join(PAGE.read_text(encoding="utf-8").split())


def test_sbcasts_tree() -> None:
    hops = {2: 1, 8: 1, 9: 2, 72: 2, 73: 3, 584: 3, 585: 4, 4096: 4}
    assert {nodes: cost_model.levels(nodes) for nodes in hops} == hops


def test_the_plan_says_what_many_ranks_cost_over_gloo() -> None:
    def warned(nodes: int, controller: str, image: object = OPENMPI) -> list[tuple[str, ...]]:
        resources = Resources(nodes=nodes, ntasks_per_node=8)
        spec = replace(SPEC, controller=Controller(controller), resources=resources)
        made = planned(spec, SITE, image=image)
        return [sentences.told(warning) for warning in made.warnings]

    assert warned(256, "gloo") == []
    assert warned(1024, "mpi") == []
    assert warned(1024, "gloo") == [("gloo-slow", "--controller mpi")]
    assert warned(1024, "gloo", NO_MPI) == [("gloo-slow",)]
