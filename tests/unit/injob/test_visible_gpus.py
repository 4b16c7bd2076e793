"""Each rank sees a MIG instance of its own, in whatever form the scheduler names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.injob.rank import hardware, startup, visible_gpus

from ..planning.test_gpu import fake_driver
from ..programs import program
from . import shim

# As `nvidia-smi -L` prints it (driver 535): the first GPU is divided in two, the second is whole.
LISTED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1f2e3d4c-0000-1111-2222-333344445555)
"""
# Before driver 470
OLD = """\
GPU 0: A100-SXM4-40GB (UUID: GPU-5d5b)
  MIG 1g.5gb Device 0: (UUID: MIG-GPU-5d5b/7/0)
  MIG 1g.5gb Device 1: (UUID: MIG-GPU-5d5b/8/0)
"""
WHOLE = "GPU 0: NVIDIA H100 (UUID: GPU-a)\nGPU 1: NVIDIA H100 (UUID: GPU-b)\n"
GPU0, GPU1 = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", "GPU-1f2e3d4c-0000-1111-2222-333344445555"
ONE, TWO = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb"


@pytest.mark.parametrize(
    ("visible", "listed", "ranks", "expected"),
    [
        (None, LISTED, 3, [ONE, TWO, GPU1]),  # Slurm without a count, or this machine
        (f"{ONE},{TWO}", "", 2, [ONE, TWO]),  # Slurm and PBS, by UUID
        (TWO, "", 2, [TWO, TWO]),  # --gpus-per-task: its own already
        ("0,1", OLD, 2, ["MIG-GPU-5d5b/7/0", "MIG-GPU-5d5b/8/0"]),
        ("5,6", OLD, 2, ["MIG-GPU-5d5b/7/0", "MIG-GPU-5d5b/8/0"]),  # of 7, the job's two are shown
        ("0,1", LISTED, 2, [ONE, TWO]),  # all are shown
        ("1,2", LISTED, 2, [TWO, GPU1]),
        ("0", LISTED, 2, [ONE, TWO]),  # a whole GPU's number
        (GPU0, LISTED, 2, [ONE, TWO]),
        (f"{GPU0},{GPU1}", LISTED, 3, [ONE, TWO, GPU1]),
        ("", LISTED, 2, []),
        ("0,1", WHOLE, 2, []),  # nothing is divided: ranks see all, for peer-to-peer
        (None, WHOLE, 2, []),
        (None, "", 2, []),  # no nvidia-smi
        ("0", "GPU 0: A (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-a)\n", 2, []),
    ],
)
def test_each_rank_has_its_own(
    visible: str | None, listed: str, ranks: int, expected: list[str]
) -> None:
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(visible_gpus, "_list", lambda: listed)
        patched.setattr(visible_gpus, "CAPABILITIES", "/nowhere")
        own = [visible_gpus.of_rank(rank, ranks, env) for rank in range(ranks)]
    assert own == [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in expected] or [{}] * ranks == own
    assert bool(expected) is bool(own[0])


@pytest.mark.parametrize(
    "env", [{"SLURM_TRES_BIND": "gres/gpu:per_task:1"}, {"SLURM_GPUS_PER_TASK": "1"}]
)
def test_a_number_that_slurm_gave_to_one_task_is_that_of_an_instance(env: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(visible_gpus, "_list", lambda: LISTED)
        patched.setattr(visible_gpus, "CAPABILITIES", "/nowhere")
        seen = {**env, "CUDA_VISIBLE_DEVICES": "1"}
        assert visible_gpus.of_rank(1, 2, seen) == {"CUDA_VISIBLE_DEVICES": TWO}


def test_nvidia_smi_is_not_asked_where_the_driver_has_no_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpu0" / "mig").mkdir(parents=True)
    monkeypatch.setattr(visible_gpus, "CAPABILITIES", str(tmp_path))
    monkeypatch.setattr(visible_gpus, "_list", lambda: LISTED)
    assert visible_gpus.of_rank(0, 2, {}) == {}
    (tmp_path / "gpu0" / "mig" / "gi7").mkdir()
    assert visible_gpus.of_rank(1, 2, {}) == {"CUDA_VISIBLE_DEVICES": TWO}


@pytest.mark.skipif(
    os.path.isdir(visible_gpus.CAPABILITIES),
    reason="NVIDIA's driver is here, and is asked before the stand-in",
)
@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, {"MIG-c", "MIG-d"}), ("MIG-a,MIG-b", {"MIG-a", "MIG-b"}), ("0,1", {"MIG-c", "MIG-d"})],
)
def test_ranks_that_the_shim_starts_see_one_each(
    tmp_path: Path, visible: str | None, expected: set[str]
) -> None:
    """With a stand-in for nvidia-smi; without a scheduler, which is one of the forms."""
    for name in (hardware.LIBRARY, hardware.OPENED):
        fake_driver(tmp_path, name)
    listed = "GPU 0: A (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-c)\n"
    listed += "  MIG 1g.5gb Device 1: (UUID: MIG-d)\n"
    program(tmp_path / "bin" / "nvidia-smi", f"printf '{listed}'")
    (tmp_path / "train.py").write_text(
        "import os; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])"
    )
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patched:
        if visible is not None:
            patched.setenv("CUDA_VISIBLE_DEVICES", visible)
        options = (*shim.TWO, "--nv")
        code, said = shim.run(tmp_path, *options, PATH=path, LD_LIBRARY_PATH=str(tmp_path))
    assert code == 0, said
    seen = [line.partition(" | sees ")[2] for line in said.splitlines() if " | sees " in line]
    assert (len(seen), set(seen)) == (2, expected)


def test_the_workers_of_an_agent_see_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}
    told = visible_gpus.for_workers(2, env)
    assert told == {"RUNNER_MIG_INSTANCES": "MIG-a,MIG-b"}
    for name, value in {**env, **told, "RUNNER_AGENT": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    startup.see_one_instance()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "MIG-b"
    assert visible_gpus.for_workers(2, {"CUDA_VISIBLE_DEVICES": "GPU-a"}) == {}
