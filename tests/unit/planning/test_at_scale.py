"""The model of jobs of many nodes: the measured points, where copying begins to pay, its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners import planning
from runners.core.disk_space import shown
from runners.core.model import ImageAccess, Resources
from runners.planning import at_scale
from runners.planning.at_scale import ONE_SERVER, PARALLEL, Constant
from runners.planning.case import Case

from .test_wireup import NO_MPI, OPENMPI, SITE, SPEC

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "scale.md"
IMAGE = 487 * 10**6  # bytes of the CPU image that was measured
# With what ezpz publishes for the same nodes: seconds to copy, and then to the first step.
NODES = {1: "", 16: "90 + 32 s", 128: "110 + 31 s", 1024: "255 + 61 s", 4096: "751 + 194 s"}
IN_PLACE, COPIED, UNPACKED = ImageAccess.IN_PLACE, ImageAccess.COPIED, ImageAccess.UNPACKED
WAYS = (IN_PLACE, ImageAccess.MOUNTED, COPIED, UNPACKED)
# docs/guides/images-on-nodes.md: way, nodes, seconds, megabytes
MEASURED = (
    (IN_PLACE, 1, 7.93, 162),
    (IN_PLACE, 2, 8.42, 321),
    (IN_PLACE, 4, 15.04, 640),
    (COPIED, 1, 10.66, 487),
    (COPIED, 2, 19.99, 487),
    (COPIED, 4, 31.19, 487),
    (UNPACKED, 1, 11.27, 487),
    (UNPACKED, 2, 27.35, 487),
    (UNPACKED, 4, 48.19, 487),
)


@pytest.mark.parametrize(("way", "nodes", "seconds", "megabytes"), MEASURED)
def test_the_measured_points(
    way: ImageAccess, nodes: int, seconds: float, megabytes: float
) -> None:
    """Bytes to 2 %, seconds of one node too; more nodes shared two cores and a disk."""
    assert at_scale.served(way, nodes, IMAGE) / 1e6 == pytest.approx(megabytes, rel=0.02)
    found = at_scale.first_step(way, nodes, IMAGE, ONE_SERVER)
    if nodes == 1:
        assert found == pytest.approx(seconds, rel=0.02)
    else:
        assert seconds / 3 < found < seconds


@pytest.mark.parametrize(("server", "first"), [(ONE_SERVER, 18), (PARALLEL, 131)])
@pytest.mark.parametrize("size", [IMAGE, 4 * 10**9])
def test_copying_pays_from_one_number_of_nodes_on_whatever_the_size(
    server: Constant, first: int, size: int
) -> None:
    paying = [at_scale.pays(nodes, size, server) for nodes in range(1, 4097)]
    assert paying == [nodes >= first for nodes in range(1, 4097)]
    for nodes in (4 * first, 4096):
        copied, in_place = (
            at_scale.first_step(way, nodes, size, server) for way in (COPIED, IN_PLACE)
        )
        assert copied < in_place


@pytest.mark.parametrize("way", WAYS)
def test_more_nodes_never_take_less(way: ImageAccess) -> None:
    several = range(2, 4097)
    for found in (
        [at_scale.first_step(way, nodes, IMAGE, ONE_SERVER) for nodes in several],
        [at_scale.served(way, nodes, IMAGE) for nodes in several],
    ):
        assert found == sorted(found)
    assert len({at_scale.requests(way, nodes) for nodes in several}) == 1


def test_sbcasts_tree() -> None:
    hops = {1: 0, 2: 1, 8: 1, 9: 2, 72: 2, 73: 3, 584: 3, 585: 4, 4096: 4}
    assert {nodes: at_scale.levels(nodes) for nodes in hops} == hops


def test_the_plan_says_what_many_ranks_cost_over_gloo() -> None:
    def warned(nodes: int, controller: str, image: object = OPENMPI) -> str:
        resources = Resources(nodes=nodes, ntasks_per_node=8)
        spec = replace(SPEC, controller=controller, resources=resources)
        made = planning.solve(Case(replace(spec, image=image), SITE))  # type: ignore[arg-type]
        said = [one for one in made.warnings if "Gloo rendezvous" in one.what]
        return " ".join(f"{one.what} {' '.join(map(str, one.remedies))}" for one in said)

    assert warned(256, "gloo") == ""
    assert warned(1024, "mpi") == ""
    much = warned(1024, "gloo")
    assert "of 8,192 ranks is slow: rank 0 needs at least 470 s of CPU and 18.3 GB" in much
    assert much.endswith("--controller mpi")
    assert warned(1024, "gloo", NO_MPI).endswith("sends 23.0 GB ")


def rows() -> list[str]:
    """Return the rows of the page's table."""
    found = []
    for nodes, published in NODES.items():
        sent = [shown(at_scale.served(way, nodes, IMAGE)) for way in (IN_PLACE, COPIED)]
        one, several = (
            [f"{at_scale.first_step(way, nodes, IMAGE, server):,.0f} s" for way in WAYS]
            for server in (ONE_SERVER, PARALLEL)
        )
        found.append(f"| {' | '.join([f'{nodes:,}', *sent, *one, several[0], published])} |")
    return found


def test_the_page_shows_what_the_model_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [row for row in rows() if row not in text.splitlines()]
    assert not missing, "\n".join(missing)
    asked = [(at_scale.requests(way, 2), at_scale.requests(way, 1)) for way in WAYS]
    assert asked == [(3, 3), (5, 5), (7, 5), (8, 6)]
    said = "3 with `none`, 5 with `mount`, 7 with `node-local`, 8 with `unpack`, two less on one"
    assert said in " ".join(text.split())


def test_the_page_names_each_constant() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = [name for name, value in vars(at_scale).items() if isinstance(value, Constant)]
    assert [name for name in named if f"`{name}`" not in text] == []
