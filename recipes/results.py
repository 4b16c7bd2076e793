"""What a run says of itself: its steps and epochs in metrics.jsonl, the whole in result.json."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from recipes import checkpoints
from recipes.distributed import Failed, UserError

#: Peak of dense bfloat16 in FLOP/s, by a part of the GPU's name: the vendor's data sheets.
PEAKS = {"B200": 2250e12, "H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12}


def open_folder(folder: Path) -> None:
    """Make the output folder, without an earlier run's result. Raises `UserError`."""
    try:
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        (folder / "result.json").unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to the output folder {folder}: {error.strerror}\n"
            "Give a folder that you can write to with --output."
        ) from error


def record_step(run: Any, loss: float) -> None:
    """Say how far the run is, and record it."""
    seconds = run.seconds + time.perf_counter() - run.epoch_began
    speed = run.taken * run.units_per_sample / seconds
    pace = (time.perf_counter() - run.began) / (run.step - run.first_step)
    minutes, rest = divmod(round(pace * (run.last_step - run.step)), 60)
    left = f"{minutes // 60}:{minutes % 60:02d}" if minutes >= 60 else f"{minutes}"
    losses = f"epoch {run.epoch}  loss {loss:.4f}  {speed:.0f} {run.unit}/s"
    run.say(f"  step {run.step}/{run.last_step}  {losses}  {left}:{rest:02d} left")
    line = {"step": run.step, "steps": run.last_step, "epoch": run.epoch, "loss": loss}
    run.record("step", {**line, f"{run.unit}_per_s": speed})


def record_epoch(run: Any, numbers: dict[str, float], count: int, waited: float) -> None:
    """Say and record an epoch of `count` units, of which this rank `waited` for its data."""
    line = {"epoch": run.epoch, "step": run.step, **numbers, "learning_rate": run.rate}
    line |= {"seconds": run.seconds, f"{run.unit}_per_s": count / run.seconds}
    run.history.append({**line, "count": count, "data_seconds": waited})
    run.record("epoch", {**line, "steps": run.last_step})
    means = "  ".join(f"{key.replace('_', ' ')} {value:.4f}" for key, value in numbers.items())
    speed = f"{run.seconds:.2f} s  {count / run.seconds:.0f} {run.unit}/s"
    run.say(f"epoch {run.epoch:3d}  {means}  {speed}")


def process_began() -> float:
    """Return when this process was started, in Unix seconds."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # proc(5)
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def speed(run: Any) -> float | None:
    """Return what all ranks did per second, without the first epoch, which warms up."""
    steady = run.history[1:]
    count, seconds = (sum(epoch[key] for epoch in steady) for key in ("count", "seconds"))
    return count / seconds if seconds else None


def utilization(run: Any, flops: float) -> dict[str, Any]:
    """Return the model FLOPs utilization where the peak of the GPU is known, and what it assumes.

    `flops` are those of a sample (or token), forward and backward.
    """
    name, rate = run.framework.gpu_name, speed(run)
    peak = next((PEAKS[key] for key in PEAKS if key in name), None)
    if peak is None or rate is None:
        return {}
    assumes = (
        f"{flops:.4g} FLOPs for each of the {run.unit}, forward and backward; peak "
        f"{peak / 1e12:g} TFLOP/s of a {name}, dense bfloat16"
    )
    return {"mfu": rate * flops / (peak * run.ranks.size), "mfu_assumes": assumes}


def summary(run: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """Return result.json; `facts` are the trainer's own."""
    last, seconds = run.history[-1], [epoch["seconds"] for epoch in run.history[1:]]
    steps, steady = sorted(run.agreement.step_seconds), run.history[1:] or run.history
    took = sum(epoch["seconds"] for epoch in steady)
    waited = sum(epoch.get("data_seconds", 0.0) for epoch in steady)  # older checkpoints: none
    return {
        **{key: last[key] for key in ("accuracy", "loss", "test_loss") if key in last},
        "epochs": len(run.history),
        "steps": last["step"],
        f"{run.unit}_per_s": speed(run),
        "first_epoch_seconds": run.history[0]["seconds"],
        "steady_epoch_seconds": statistics.median(seconds) if seconds else None,
        "step_seconds_median": statistics.median(steps) if steps else None,
        "step_seconds_p95": steps[int(len(steps) * 0.95)] if steps else None,
        "data_wait_share": waited / took,
        "peak_memory_bytes": run.framework.peak_memory(),
        "startup_seconds": run.agreement.first_step_unix_time - process_began(),
        "first_step_unix_time": run.agreement.first_step_unix_time,
        "trainer": run.trainer,
        "world_size": run.ranks.size,
        "hosts": [host for host, *_ in run.hardware],
        "device": run.device,
        "threads": run.hardware[0][2],
        "controller": run.ranks.controller,
        "resumed_at_steps": run.resumed_at_steps,
        "versions": run.versions,
        "arguments": vars(run.args),
        "finished": checkpoints.now(),
        **facts,
    }


def write(run: Any, facts: dict[str, Any]) -> None:
    """Write result.json, and say its main numbers. Raises `Failed` where it cannot be written."""
    path, result = run.folder / "result.json", summary(run, facts)
    try:
        checkpoints.write_json(path, result)
    except OSError as error:
        raise Failed(
            f"training finished, but {path} could not be written: {error.strerror}\n"
            f"Make room, then run again from the newest checkpoint: --resume {run.folder}"
        ) from error
    shown = {key: result.get(key) for key in ("accuracy", f"{run.unit}_per_s")}
    text = "  ".join(f"{key} {_short(value)}" for key, value in shown.items() if value)
    run.say(f"{text}  result in {path}")


def _short(value: float) -> str:
    """Return four digits of a number, or the whole part of a longer one."""
    return f"{value:.4g}" if value < 10_000 else f"{value:.0f}"
