"""Horovod's knobs in a real job: the variables arrive, and the timeline has both ranks in it."""

from __future__ import annotations

import json

import pytest

from .conftest import IMAGE, Login, succeeded

pytestmark = pytest.mark.unpacked

TRAINER = """
import os
import horovod.torch as hvd
import torch
hvd.init()
for step in range(3):
    hvd.allreduce(torch.ones(4), name="weights")
mine = {name: text for name, text in os.environ.items() if name.startswith("HOROVOD_")}
for name in ("CYCLE_TIME", "FUSION_THRESHOLD", "GLOO_TIMEOUT_SECONDS"):
    print("rank", hvd.rank(), name, mine["HOROVOD_" + name])
hvd.shutdown()
"""


def test_horovods_knobs_reach_both_ranks_and_the_timeline_has_them(login: Login) -> None:
    trainer = login.write("tuned.py", TRAINER)
    words = ["--timeline-filename", "trace.json", "--cycle-time-ms", "2.5", "--autotune"]
    words += ["--fusion-threshold-mb", "32", "--start-timeout", "77", "--nodes", "2"]
    shown = succeeded(login.launch(*words, "--controller", "gloo", "--follow", "--all", trainer))
    for rank in (0, 1):
        assert f"rank {rank} CYCLE_TIME 2.5" in shown.stdout
        assert f"rank {rank} FUSION_THRESHOLD {32 * 1024 * 1024}" in shown.stdout
        assert f"rank {rank} GLOO_TIMEOUT_SECONDS 77" in shown.stdout
    assert "cycle_time_ms" in login.sh("head -n 1 runs/tuned-1/autotune.csv")
    events = json.loads(login.sh("cat runs/tuned-1/trace.json"))
    tensor = next(e["pid"] for e in events if e.get("args", {}).get("name") == "allreduce.weights")
    names = [e.get("name") for e in events if e.get("pid") == tensor]
    assert {"NEGOTIATE_ALLREDUCE", "0", "1", "ALLREDUCE"} <= set(names)


def test_adasum_takes_sixteen_bits(login: Login) -> None:
    """On CPUs that needs F16C and FMA, for which the image's Horovod is compiled."""
    shown = login.runner("plan", "--image", IMAGE, "--nodes", "2", "--json", "torch_mnist")
    plan = json.loads(shown.stdout)
    chosen = {choice["id"]: choice["value"] for choice in plan["choices"]}
    assert chosen["cpu-level"] == "x86-64-v3"
    words = ["--nodes", "2", "--controller", "mpi", "--wait", "torch_mnist", "--"]
    succeeded(login.launch(*words, "--adasum", "--fp16-allreduce", "--epochs", "4"))
    result = login.told("result")
    assert result["accuracy"] > 0.8
    assert result["weights"]["result"] == "equal"
