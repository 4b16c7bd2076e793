"""GPU jobs: how ranks share GPUs, and what is known of the driver before the job and on nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import runners.injob.rank
from runners.contract import nvidia
from runners.contract.enums import ProcessGroup
from runners.contract.exit_codes import EXIT_REFUSED
from runners.contract.versions import older
from runners.core.model import GpuVendor, ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from runners.core.plan import ChoiceId
from runners.core.site import Partition, Site
from runners.core.trainer import Trainer
from runners.images import inspect
from runners.injob.rank import hardware
from runners.sites import probe

from .. import sentences
from ..injob import shim
from ..plans import planned
from ..programs import program, sandbox
from . import slurm_site

RANK = Path(runners.injob.rank.__file__).parent
IMAGE = ImageInfo(
    Path("/i/gpu.sif"),
    {
        "cuda.version": "12.8",
        "cuda.driver.minimum": "525.60.13",
        "glibc.version": "2.41",
        "horovod.controllers": "mpi,gloo",
    },
)
TRAINER = Trainer("train.py", None, Path("/t/train.py"))
SPEC = JobSpec("job", IMAGE, TRAINER, Resources(gpus_per_node="4"), Path("/runs"))
SLURM = Site((SchedulerName.SLURM,), ("none",), RuntimeName.APPTAINER, glibc="2.36")
LAPTOP = replace(SLURM, schedulers=())
ALONE = Site((), (), RuntimeName.APPTAINER, driver="550.54.15", glibc="2.36")
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (root)\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)


@pytest.mark.parametrize(
    ("text", "version"), [(CLOSED, "535.129.03"), (OPEN, "550.54.15"), ("something else\n", "")]
)
def test_the_drivers_version_is_read(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "version").write_text(text)
    assert nvidia.driver_version(str(tmp_path / "version")) == version


def test_a_machine_without_a_driver_has_no_version(tmp_path: Path) -> None:
    assert nvidia.driver_version(str(tmp_path / "absent")) == ""


@pytest.mark.parametrize(
    ("version", "minimum", "expected"),
    [
        ("470.223.02", "525.60.13", True),
        ("525.9.1", "525.60.13", True),
        ("525.60.13", "525.60.13", False),
        ("580.65", "525.60.13", False),
        ("2.9", "2.36", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, minimum: str, expected: bool) -> None:
    assert older(version, minimum) is expected


def choices(spec: JobSpec, site: Site, image: ImageInfo = IMAGE) -> dict[str, tuple[Any, str]]:
    found = planned(spec, site, image=image).choices
    return {choice.id: (choice.value, choice.reason) for choice in found}


def test_under_slurm_the_nodes_are_asked_when_the_job_starts() -> None:
    found = choices(SPEC, SLURM)
    assert found["driver"] == ("525.60.13", "each node is checked when the job starts")
    assert found["glibc"] == ("2.36", "the image has 2.41, so the libraries that --nv adds work")


def test_an_old_driver_on_the_login_node_is_shown_but_does_not_decide() -> None:
    found = choices(SPEC, replace(SLURM, driver="470.57.02"))
    assert "this machine has 470.57.02, too old" in found["driver"][1]


def test_a_newer_c_library_outside_is_shown() -> None:
    assert "the image's is older" in choices(SPEC, replace(SLURM, glibc="2.42"))["glibc"][1]


@pytest.mark.parametrize(
    ("gpus", "ranks", "cpus"),
    [("4", 4, 16), ("1", 1, 16), ("2", 1, 32), ("4", 1, 64), ("2", 3, 10), ("8", 8, 8)],
)
def test_without_a_scheduler_a_rank_has_its_gpus_share_of_this_machines_cpus(
    gpus: str, ranks: int, cpus: int
) -> None:
    asked = Resources(gpus_per_node=gpus, ntasks_per_node=ranks)
    spec, here = (
        replace(SPEC, scheduler=SchedulerName.LOCAL, resources=asked),
        replace(LAPTOP, gpus=4, cpus=64),
    )
    found = choices(spec, here)
    assert found["cpus-per-task"] == (cpus, "its GPU's share of the node")
    assert found["threads"][0] == cpus
    assert choices(spec, LAPTOP)["threads"][0] == 1  # nothing is known of its GPUs


OWN = replace(
    ImageInfo(Path("/i/theirs.sif")),
    inspected={
        "cuda.driver.library": "/usr/local/cuda/compat/libcuda.so.1",
        "horovod.version": "x",
    },
)


@pytest.mark.parametrize(
    ("version", "image", "first", "warned"),
    [
        ("1.4.5", OWN, "host", False),
        ("1.5.0", OWN, "image", True),
        ("1.10.2", OWN, "image", True),
        ("1.5.0", IMAGE, "image", False),
        ("", OWN, None, False),
    ],
)
def test_the_plan_says_whose_driver_library_this_apptainer_finds_first(
    version: str, image: ImageInfo, first: str | None, warned: bool
) -> None:
    site = replace(SLURM, apptainer=version)
    made = planned(SPEC, site, image=image)
    found = {choice.id: choice for choice in made.choices}.get(ChoiceId.GPU_LIBRARIES)
    assert (found and found.value) == first
    if found:
        assert version in found.reason
        assert "1.5.0" in found.reason
    assert ("driver-library-hidden" in sentences.ids(made.warnings)) is warned
    if warned:
        asked = ("PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs")
        again = planned(SPEC, site, env=(asked,), image=image)
        assert {choice.id: choice.value for choice in again.choices}[
            ChoiceId.GPU_LIBRARIES
        ] == "host"
        told = sentences.ids(again.warnings)
        assert "driver-library-hidden" not in told, "what the remedy asks for ends the warning"


@pytest.mark.parametrize(
    ("libraries", "nodes", "gpus", "warned"),
    [
        ("none", 2, "4", True),
        ("librdmacm.so.1", 2, "4", True),
        ("none", 1, "4", False),
        ("none", 2, None, False),
        ("libibverbs.so.1,librdmacm.so.1", 2, "4", False),
        ("", 2, "4", False),  # not known
    ],
)
def test_an_image_without_libibverbs_is_a_warning_for_gpus_on_several_nodes(
    libraries: str, nodes: int, gpus: str | None, warned: bool
) -> None:
    image = replace(ImageInfo(Path("/i/theirs.sif")), inspected={"rdma.libraries": libraries})
    asked = Resources(nodes=nodes, gpus_per_node=gpus)
    made = planned(SPEC, SLURM, image=image, resources=asked)
    assert ("no-verbs" in sentences.ids(made.warnings)) is warned


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("apptainer version 1.4.5", "1.4.5"),
        ("apptainer version 1.5.0-1.el9", "1.5.0"),
        ("singularity-ce version 4.3.2", ""),
        ("", ""),
    ],
)
def test_the_version_of_apptainer_is_read(tmp_path: Path, said: str, version: str) -> None:
    singularity = program(tmp_path / "singularity", f"echo '{said}'")
    assert probe.apptainer(str(singularity)) == version


def test_a_job_without_gpus_asks_nothing_of_the_driver() -> None:
    found = choices(replace(SPEC, resources=Resources()), SLURM)
    assert "driver" not in found
    assert "glibc" not in found


def test_an_image_without_labels_needs_any_driver() -> None:
    assert choices(SPEC, ALONE, ImageInfo(IMAGE.path))["driver"][0] == "any"


def test_without_a_scheduler_an_old_driver_is_refused() -> None:
    (refusal,) = planned(SPEC, replace(ALONE, driver="470.57.02"), image=IMAGE).refusals
    # Left out the number would be the default.
    assert sentences.told(refusal)[:2] == ("driver-too-old", "--gpus-per-node 0")


def test_a_driver_that_says_nothing_of_itself_is_left_to_the_container() -> None:
    """As under WSL, where the library is there and /proc/driver/nvidia is not."""
    assert planned(SPEC, replace(ALONE, driver=""), image=IMAGE).gpus.vendor


def test_inspect_shows_what_a_gpu_image_needs(tmp_path: Path) -> None:
    labels = {**IMAGE.labels, "horovod.version": "0.28.1"}
    facts = inspect.inspect(sandbox(tmp_path, labels)).facts
    assert facts["cuda.driver.minimum"].value == "525.60.13"
    assert "cudnn.version" not in facts  # not known, and not every image's business
    labels.update({"cuda.version": "none"})
    labels.pop("nccl.version", None)
    assert inspect.inspect(sandbox(tmp_path, labels)).facts["nccl.version"].value == "none"


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder for fake driver libraries; the first place where the loader looks."""
    folder = tmp_path / "driver"
    folder.mkdir()
    return folder


def fake_driver(libraries: Path, name: str) -> None:
    """Any library at all that can be loaded."""
    maths = subprocess.run(
        [
            sys.executable,
            "-c",
            "import ctypes; ctypes.CDLL('libm.so.6'); print(open('/proc/self/maps').read())",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    file = next(line.split()[-1] for line in maths.splitlines() if line.endswith("/libm.so.6"))
    shutil.copy(file, libraries / name)


def ask(libraries: Path, minimum: str, driver: Path) -> str:
    """What a node says whose loader looks into `libraries` first."""
    ask = f"hardware.driver_problem({minimum!r}, 'n1', {str(driver)!r})"
    code = f"from runners.injob.rank import hardware; found = {ask}\n"
    code += "if found: print(found.text, *found.fields['evidence'], sep='\\n')"
    env = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(RANK.parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def version_file(tmp_path: Path, text: str = CLOSED) -> Path:
    file = tmp_path / "version"
    file.write_text(text)
    return file


def unusable(libraries: Path) -> None:
    """Hide the driver that this machine may have."""
    (libraries / hardware.LIBRARY).touch()


def test_a_driver_that_the_container_does_not_see(tmp_path: Path, libraries: Path) -> None:
    unusable(libraries)
    said = ask(libraries, "525.60.13", version_file(tmp_path))
    assert "libcuda.so.1 is not in the container, though n1 has NVIDIA driver 535.129.03" in said
    assert "ldconfig -p | grep libcuda" in said


def test_a_node_with_an_old_driver(tmp_path: Path, libraries: Path) -> None:
    for name in (hardware.LIBRARY, hardware.OPENED):
        fake_driver(libraries, name)
    said = ask(libraries, "560.28", version_file(tmp_path))
    assert said.startswith("the NVIDIA driver of n1 is too old for the CUDA in the image\n")
    assert "it is 535.129.03; the image needs 560.28 or newer" in said
    assert ask(libraries, "525.60.13", version_file(tmp_path)) == ""


def test_a_python_that_cannot_load_libraries_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert hardware.driver_problem("525.60.13", "n1", str(version_file(tmp_path))) is None


def run_shim(tmp_path: Path, libraries: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run the shim for one task of a job with --nv."""
    (tmp_path / "train.py").write_text(code)
    words = (str(tmp_path / "train.py"), "an arg")
    command = shim.command(tmp_path, "--tasks", "1", "--controller", "gloo", "--nv", trainer=words)
    env = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_a_refused_task_explains_and_records_it_and_runs_nothing(
    tmp_path: Path, libraries: Path
) -> None:
    unusable(libraries)
    done = run_shim(tmp_path, libraries, "print('STARTED')")
    assert done.returncode == EXIT_REFUSED
    assert "STARTED" not in done.stdout
    assert "  try: " in done.stdout
    failure = json.loads((tmp_path / "failures" / "rank-0.json").read_text())
    assert failure["exit_code"] == EXIT_REFUSED
    assert "\n" not in failure["message"]


def test_one_visible_gpu_for_each_rank() -> None:
    made = slurm_site.solved(Resources(partition="a100", ntasks_per_node=4, gpus_per_task="1"))
    assert slurm_site.values(made)["gpu-of-a-rank"] == "visible"
    assert not made.refusals


@pytest.mark.parametrize(
    ("version", "args", "offers"),
    [
        ("22.05.8", (), ["--gpus-per-node 4, leave out --gpus-per-task"]),
        (
            "23.11.10",
            (),
            [
                "--gpus-per-node 4, leave out --gpus-per-task",
                "--srun-arg=--gres-flags=allow-task-sharing",
            ],
        ),
        ("24.11.5", ("--gres-flags=allow-task-sharing",), None),
    ],
)
def test_what_gpus_per_task_costs_and_what_keeps_peer_to_peer(
    version: str, args: tuple[str, ...], offers: list[str] | None
) -> None:
    asked = Resources(partition="a100", ntasks_per_node=4, gpus_per_task="1")
    spec = replace(slurm_site.SPEC, resources=asked, image=slurm_site.IMAGE, srun_args=args)
    made = planned(spec, replace(slurm_site.SITE, slurm_version=version))
    told = [sentences.told(warning) for warning in made.warnings]
    assert told == ([("gpus-per-task-peers", *offers)] if offers else [])
    one = replace(spec, resources=replace(asked, ntasks_per_node=1))
    assert not planned(one, slurm_site.SITE).warnings


@pytest.mark.parametrize(
    ("gpus", "tasks", "plane"), [("4", 4, "nccl"), ("2", 4, "nccl"), (None, 2, "gloo")]
)
def test_a_script_of_torch_distributed_exchanges_by_its_own_backend(
    gpus: str | None, tasks: int, plane: str
) -> None:
    trainer = Trainer("t", None, Path("/t.py"), seen_world=ProcessGroup.TORCH)
    asked = Resources(
        partition="a100" if gpus else "cpu", gpus_per_node=gpus, ntasks_per_node=tasks
    )
    made = planned(
        slurm_site.SPEC, slurm_site.SITE, resources=asked, image=slurm_site.IMAGE, trainer=trainer
    )
    assert slurm_site.values(made)["gradient-transport"] == plane
    assert bool(made.refusals) is (gpus == "2")  # two ranks on one GPU


def test_ranks_share_a_gpu_where_nccl_is_told_to_allow_it() -> None:
    asked = Resources(partition="a100", gpus_per_node="2", ntasks_per_node=4)
    spec = replace(
        slurm_site.SPEC,
        resources=asked,
        image=slurm_site.IMAGE,
        env=(("NCCL_MULTI_RANK_GPU_ENABLE", "1"),),
    )
    made = planned(spec, slurm_site.SITE)
    assert not made.refusals
    assert sentences.ids(made.warnings) == ["gpu-shared-by-ranks"]


def test_idle_gpus_and_parts_of_gpus_are_told() -> None:
    made = slurm_site.solved(Resources(partition="a100", gpus_per_node="8", ntasks_per_node=2))
    assert sentences.ids(made.warnings) == ["gpus-idle"]
    parts = replace(slurm_site.SITE, partitions=())
    asked = Resources(gres="gpu:1g.10gb:2", ntasks_per_node=2)
    made = slurm_site.solved(asked, parts)
    assert slurm_site.values(made)["gpu-of-a-rank"] == "visible"
    (warning,) = made.warnings
    id, remedy = sentences.told(warning)
    assert id == "mig-nccl"
    assert remedy.startswith("--gpus-per-node 1g.10gb:1, leave out --gpus")


@pytest.mark.parametrize(
    ("version", "env", "ids"),
    [
        ("2.27.5", (), ["mig-nccl"]),
        ("2.31.2", (), ["mig-nccl-untold"]),
        ("2.31.2", (("NCCL_MULTI_RANK_GPU_ENABLE", "1"),), []),
    ],
)
def test_what_the_image_s_nccl_makes_of_mig_instances(
    version: str, env: tuple[tuple[str, str], ...], ids: list[str]
) -> None:
    image = replace(IMAGE, labels={**IMAGE.labels, "nccl.version": version})
    asked = Resources(gpus_per_node="1g.10gb:2", ntasks_per_node=2)
    made = planned(SPEC, SLURM, image=image, resources=asked, env=env)
    assert sentences.ids(made.warnings) == ids


def test_amd_gpus_get_rocm() -> None:
    nodes = (Partition("mi", nodes=2, cpus=64, gpus=(("mi250", 8),), default=True),)
    made = slurm_site.solved(
        Resources(gpus_per_node="mi250:8"), replace(slurm_site.SITE, partitions=nodes)
    )
    assert made.gpus.vendor is GpuVendor.AMD
    asked = replace(slurm_site.SPEC, resources=Resources(gpus_per_node="8"))
    there = replace(slurm_site.SITE, partitions=(), amd=True)
    assert planned(asked, there, image=slurm_site.IMAGE).gpus.vendor is GpuVendor.AMD
    named = replace(asked, nv=True, image=slurm_site.IMAGE)
    assert planned(named, there).gpus.vendor is GpuVendor.NVIDIA


def test_a_gpu_job_without_nccl_is_told() -> None:
    image = replace(
        slurm_site.IMAGE, labels={**slurm_site.IMAGE.labels, "horovod.operations": "gloo"}
    )
    made = slurm_site.solved(
        Resources(partition="a100", gpus_per_node="4", ntasks_per_node=4), image=image
    )
    assert slurm_site.values(made)["gradient-transport"] == "gloo"
    assert "no-nccl" in sentences.ids(made.warnings)
