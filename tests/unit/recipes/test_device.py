"""What a device cannot do is told before the first step, and what it does slowly once."""

from __future__ import annotations

import shutil
from argparse import Namespace
from dataclasses import replace

import pytest

from recipes import device
from recipes.device import Device
from recipes.distributed import UserError

from .. import sentences
from .one_rank import one_rank

CODE = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120")
V100 = Device((7, 0), "Tesla V100-SXM2-32GB", CODE, ("gcc",))
H200 = Device((9, 0), "NVIDIA H200", CODE, ("gcc",))


def settled(here: Device, precision: str | None = None, compiled: bool = False) -> str:
    """Return the precision that is settled on."""
    args = Namespace(precision=precision, compile=compiled)
    device.settle(args, one_rank(), here)
    return str(args.precision)


def test_a_gpu_that_the_image_has_no_code_for_is_refused() -> None:
    with sentences.refuses(UserError):
        settled(V100)
    assert settled(replace(V100, code=())) == "fp32", "where the framework does not say"


@pytest.mark.parametrize(
    ("capability", "code", "runs"),
    [
        ((8, 6), ("sm_80",), True),
        ((8, 0), ("sm_86",), False),
        ((9, 0), ("sm_80",), False),
        ((9, 0), ("sm_90a",), True),
        ((12, 0), ("sm_90", "compute_90"), True),
        ((7, 0), ("sm_75", "compute_75"), False),
    ],
)
def test_what_code_a_gpu_runs(
    capability: tuple[int, int], code: tuple[str, ...], runs: bool
) -> None:
    here = Device(capability, "a GPU", code)
    if runs:
        settled(here)
        return
    with sentences.refuses(UserError):
        settled(here)


def test_compiling_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with sentences.refuses(UserError):
        settled(H200, compiled=True)
    settled(H200)
    settled(replace(H200, compilers=()), compiled=True)  # XLA brings its own


@pytest.mark.parametrize(
    ("here", "asked", "precision", "noted"),
    [
        (H200, None, "bf16", False),
        (H200, "fp32", "fp32", False),
        (replace(V100, code=()), None, "fp32", False),
        (replace(V100, code=()), "bf16", "bf16", True),
    ],
)
def test_bfloat16_where_it_is_slow_is_noted_by_rank_0(
    here: Device, asked: str | None, precision: str, noted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert settled(here, asked) == precision
    assert capsys.readouterr().out.count("this GPU has no bfloat16 units") == int(noted)
    device.settle(Namespace(precision=asked), replace(one_rank(), rank=1), here)
    assert capsys.readouterr().out == ""


def test_a_cpu_computes_in_float32_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert settled(Device()) == "fp32"
    assert settled(Device(), "bf16") == "bf16"
    slow = not Device().has_bfloat16
    assert ("this CPU has no bfloat16 units" in capsys.readouterr().out) is slow


def test_two_ranks_on_one_gpu_are_refused() -> None:
    gpus = [("n1", "GPU-a"), ("n1", "GPU-b"), ("n1", "GPU-a"), ("n2", "GPU-a")]
    on = [device.shared(replace(one_rank(), rank=rank, size=4), gpus) for rank in range(4)]
    assert [error is not None for error in on] == [True, False, True, False]
    sentences.said(str(on[0]))
