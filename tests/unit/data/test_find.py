"""What --data means, and what it becomes: names, binds, DATA_DIR, refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runners import runtimes
from runners.core.errors import NotFound
from runners.core.model import (
    BindMount,
    DataAccess,
    Dataset,
    ImageInfo,
    JobSpec,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Plan
from runners.core.quoting import Expanded
from runners.core.site import Partition, Profile, Site
from runners.core.trainer import Trainer
from runners.data import find_data, pack
from runners.runtimes import command_lines

from .. import sentences
from ..plans import planned


def make_squashfs(path: Path, size: int = 200, there: int = 200) -> Path:
    head = pack.SUPERBLOCK.pack(b"hsqs", 7, 0, 131072, 0, 1, 17, 0, 1, 4, 0, 0, size)
    path.write_bytes(head.ljust(there, b"\0")[:there])
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Local folders, a scratch with fetched data, a site with shared data."""
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path / "scratch"))
    names = ("local", "scratch/data/mnist", "scratch/data/.fetch", "site/ImageNet", "empty")
    for name in (*names, "more/ImageNet", "more/WIDER"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").write_text("x")
    (tmp_path / "empty" / "x").unlink()
    make_squashfs(tmp_path / "site" / "coco.sqsh")
    make_squashfs(tmp_path / "cut.sqsh", there=120)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SITE = Profile("alvis", paths={"datasets": "$SHARED/site:$SHARED/more:$NOT/here"})


def all_of(here: Path, *texts: str) -> tuple[Dataset, ...]:
    return find_data.all_of(texts, SITE, {"SHARED": str(here)})


def test_a_path_a_fetched_name_and_a_name_of_the_site(here: Path) -> None:
    local, fetched, shared, packed = all_of(here, "a=local", "b=mnist", "c=imagenet", "d=coco")
    assert (local.path, local.origin) == (here / "local", "")
    assert (fetched.path, fetched.origin) == (
        here / "scratch/data/mnist",
        "fetched or packed before",
    )
    assert (shared.path, shared.origin) == (here / "site/ImageNet", "a dataset of alvis")
    assert (packed.path, packed.squashfs, packed.entry) == (here / "site/coco.sqsh", True, "d.sqsh")


def test_a_site_may_have_several_folders_of_them(here: Path) -> None:
    """As Alvis has; of two datasets with one name that of the first folder is taken."""
    first, second = all_of(here, "a=ImageNet", "b=wider")
    assert (first.path, second.path) == (here / "site/ImageNet", here / "more/WIDER")
    assert first.origin == second.origin == "a dataset of alvis"


def test_of_two_with_one_name_the_later_counts(here: Path) -> None:
    (one,) = all_of(here, "local", "mnist")
    assert one.path.name == "mnist"


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["nothing"], ["dataset-missing", "runner data fetch"]),
        (["loccal"], ["dataset-missing", "runner data fetch"]),
        (["imagnet"], ["dataset-missing", "runner data fetch"]),
        (
            ["cifar10"],
            ["dataset-not-fetched", "runner data fetch cifar10 && the same command once more"],
        ),
        (["empty"], ["dataset-empty"]),
        (["local/x"], ["squashfs-malformed", "runner data pack DIR"]),
        (["cut.sqsh"], ["squashfs-truncated", "copy it again"]),
        (["a="], ["data-malformed"]),
        (["local", "b=local"], ["data-over-data"]),
    ],
)
def test_what_is_refused(here: Path, texts: list[str], told: list[str]) -> None:
    with sentences.raises(*told):
        all_of(here, *texts)


def test_a_path_may_have_an_equals_sign(here: Path) -> None:
    (here / "a=b").mkdir()
    (here / "a=b" / "x").touch()
    (one,) = all_of(here, "./a=b")
    assert (one.name, one.path) == ("", here / "a=b")


def test_measured(here: Path) -> None:
    (one,) = map(find_data.measured, all_of(here, "local"))
    assert (one.size, one.files, one.at_least) == (1, 1, False)
    assert find_data.measured(one, seconds=-1).at_least


def test_what_the_job_knows_alone_stays_for_its_shell() -> None:
    (_, bind) = command_lines.bind_option(BindMount(Expanded("$stage/n"), "/data/n", True))
    assert isinstance(bind, Expanded)


RECIPE = Trainer("torch_mnist", "recipes.torch_mnist", None)
SPEC = JobSpec("job", ImageInfo(Path("/i/a.sif")), RECIPE, Resources(nodes=2), Path("/runs"))
OURS = ImageInfo(SPEC.image.path, {"horovod.controllers": "gloo", "horovod.version": "0.28.1"})
SLURM = Site((SchedulerName.SLURM,), ("none",), RuntimeName.APPTAINER)
ONE, TWO = Dataset("a", Path("/d/a")), Dataset("b", Path("/d/b.sqsh"), squashfs=True)


def solved(*data: Dataset, site: Site = SLURM, **changes: object) -> Plan:
    return planned(SPEC, site, data=data, **changes, image=OURS)


@pytest.mark.parametrize(
    ("data", "expected"),
    [((Dataset("", Path("/d/a")),), "/data"), ((ONE,), "/data/a"), ((ONE, TWO), "/data")],
)
def test_data_dir(data: tuple[Dataset, ...], expected: str) -> None:
    exports = dict(runtimes.exports(solved(*data), "/run"))
    assert exports["APPTAINERENV_DATA_DIR"] == expected


def test_without_a_container_the_data_is_where_it_is() -> None:
    made = solved(ONE, runtime=RuntimeName.NONE)
    assert dict(runtimes.exports(made, "/run"))["DATA_DIR"] == "/d/a"
    staged = solved(ONE, runtime=RuntimeName.NONE, stage_data=DataAccess.COPIED)
    assert dict(runtimes.exports(staged, "/run"))["DATA_DIR"] == '"$stage/a"'


@pytest.mark.parametrize("runtime", [RuntimeName.NONE, RuntimeName.SHIFTER, RuntimeName.PODMAN_HPC])
def test_who_mounts_no_squashfs_says_what_to_do(runtime: RuntimeName) -> None:
    refusals = map(sentences.told, solved(TWO, runtime=runtime).refusals)
    (first,) = (remedies[0] for id, *remedies in refusals if id == "squashfs-not-of-runtime")
    assert first.startswith("unsquashfs -d b-unpacked /d/b.sqsh && --data")
    assert "b=b-unpacked, leave out --data" in first


def test_several_squashfs_files_are_named_as_several() -> None:
    both = solved(TWO, replace(TWO, name="c", path=Path("/d/c.sqsh")), runtime=RuntimeName.SHIFTER)
    assert "squashfs-not-of-runtime" in sentences.ids(both.refusals)


def test_without_a_container_one_dataset() -> None:
    made = solved(ONE, Dataset("b", Path("/b")), runtime=RuntimeName.NONE)
    assert sentences.ids(made.refusals) == ["one-dataset-only"]


GB = 10**9
CPU = Partition("cpu", 8, 64, default=True, disk_mb=500_000)


@pytest.mark.parametrize(
    ("size", "files", "nodes", "disk", "staged", "words"),
    [
        (1 * GB, 20_000, 2, 0, True, "20000 files, which each epoch opens again"),
        (1 * GB, 20_000, 1, 0, True, "20000 files"),
        (1 * GB, 1, 4, 0, False, "a node keeps them in memory"),
        (10 * GB, 1, 4, 0, True, "10.0 GB for 4 nodes: read once"),
        (10 * GB, 1, 1, 0, False, "for one node"),
        (100 * GB, 1, 4, 0, False, "is more than every node has room for"),
        (100 * GB, 1, 4, 500_000, True, "100.0 GB for 4 nodes"),
        (100 * GB, 1, 4, 50_000, False, "is more than a node's disk, 52 GB"),
        (300 * GB, 1, 4, 500_000, False, "300.0 GB takes long to copy"),
    ],
)
def test_auto_says_why(
    size: int, files: int, nodes: int, disk: int, staged: bool, words: str
) -> None:
    data = replace(TWO, size=size, files=files)
    site = replace(SLURM, partitions=(replace(CPU, disk_mb=disk),))
    made = solved(data, site=site, stage_data=None, resources=Resources(nodes=nodes))
    assert made.staging.any == staged
    (choice,) = (c for c in made.choices if c.id == "stage-data")
    assert words in choice.reason


def test_auto_gives_up_counting() -> None:
    made = solved(replace(ONE, size=5, files=200_000, at_least=True), stage_data=None)
    (choice,) = (c for c in made.choices if c.id == "stage-data")
    assert "more than 200000 files" in choice.reason
    assert "runner data pack" in choice.reason


def test_staging_that_cannot_be() -> None:
    assert sentences.ids(solved(stage_data=DataAccess.COPIED).refusals) == [
        "stage-data-without-data"
    ]
    pbs = Site((SchedulerName.PBS,), runtime=RuntimeName.APPTAINER)
    made = solved(ONE, site=pbs, stage_data=DataAccess.COPIED)
    assert ("stage-data-impossible", "--stage-data none") in map(sentences.told, made.refusals)
    assert not solved(ONE, site=pbs, stage_data=None).staging.any
    assert not solved(stage_data=None).staging.any


def test_by_default_nothing_is_staged() -> None:
    assert not solved(replace(TWO, size=10 * GB, files=1)).staging.any


def test_a_mistyped_name_offers_datasets_and_no_folder_of_ours(here: Path) -> None:
    for name in ("runs", "studies", "digits-of-mine", "src"):
        (here / name).mkdir()
        (here / name / "file").touch()
    for text, offered in (
        ("digit", "digits-of-mine"),
        ("run", "mnist"),
        ("digits-of-min", "digits-of-mine"),
    ):
        with pytest.raises(NotFound) as caught:
            find_data.one(text, None, {})
        assert offered in caught.value.evidence
        assert not {"runs", "studies", "src"} & set(re.split("[ ,?]+", caught.value.evidence))
