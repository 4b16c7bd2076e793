"""TensorFlow's part of a run: the device, precision, checkpoints, evaluation, profiles.

For Keras 3, which wraps TensorFlow's variables: `v.value`.
"""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recipes import checkpoints
from recipes.device import Device, Framework, settle
from recipes.distributed import Batch, Ranks, UserError, threads
from recipes.run import Run

TEST_BATCH = 1000  # test samples at once


def pick_device(args: Namespace, ranks: Ranks) -> str:
    """Take this rank's GPU, or the CPU; set `args.precision` to its default there.

    TensorFlow takes threads and devices only before it computes anything, and an exchange is
    computing: call it with the reading of the options.
    """
    count = threads(ranks.local_size)
    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)
    gpus = tf.config.list_physical_devices("GPU")
    if args.device == "cpu" or not gpus:
        if args.device == "gpu":
            raise UserError("--device gpu: this rank sees no GPU. Ask for one: --gpus-per-node 1")
        tf.config.set_visible_devices([], "GPU")
        device = Device()
    else:
        mine = gpus[ranks.local_rank % len(gpus)]  # the ranks of a node take its GPUs in turn
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)
        details = tf.config.experimental.get_device_details(mine)
        device = Device(details.get("compute_capability", (0, 0)), details.get("device_name", ""))
    settle(args, ranks, device)
    policy = "mixed_bfloat16" if args.precision == "bf16" else "float32"
    tf.keras.mixed_precision.set_global_policy(policy)
    return "gpu" if tf.config.get_visible_devices("GPU") else "cpu"


def losses(logits: Any, labels: Any) -> Any:
    """Return the loss of each sample, in float32 whatever the model computes in."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))


def add(sums: list[Any], more: list[Any]) -> list[Any]:
    """Add gradients one by one; no sums are zeros."""
    return [a + b for a, b in zip(sums, more)] if sums else list(more)


def passes(batch: Batch, adasum: bool = False) -> list[tuple[Any, Any]]:
    """Return the samples of each backward pass, and the factor for their sum of losses.

    An empty part becomes one sample of factor 0: TensorFlow 2.21 fails on convolutions of nothing.
    """
    weight = 1 / max(1, batch.own) if adasum else batch.weight
    factor, nothing = tf.constant(weight, tf.float32), (np.zeros(1, np.int64), tf.constant(0.0))
    return [(part, factor) if len(part) else nothing for part in batch.parts]


def framework(device: str) -> Framework:
    """Return what a run asks of TensorFlow."""
    versions = {"tensorflow": tf.__version__}
    if device == "cpu":
        return Framework(device, versions, profiler=Profiler)
    details = tf.config.experimental.get_device_details(tf.config.get_visible_devices("GPU")[0])
    return Framework(
        device,
        versions,
        peak_memory=lambda: int(tf.config.experimental.get_memory_info("GPU:0")["peak"]),
        gpu_name=str(details.get("device_name", "")),
        profiler=Profiler,
    )


def evaluate(
    run: Run, count: int, predict: Callable[[Any], Any], at_once: int = TEST_BATCH
) -> list[float]:
    """Test this rank's share of `count` samples; return sum of losses, right ones, number.

    `predict` returns logits and labels of some samples. Nothing is exchanged here: shares
    differ in size and may be empty.
    """
    parts = run.test_parts(count, at_once)
    loss, right = tf.constant(0.0), tf.constant(0, tf.int64)
    for part in parts:
        logits, labels = predict(part)
        loss += tf.reduce_sum(losses(logits, labels))
        hits = tf.equal(tf.argmax(logits, 1), tf.cast(labels, tf.int64))
        right += tf.reduce_sum(tf.cast(hits, tf.int64))
    return [float(loss), float(right), sum(map(len, parts))]


def seeds(model: Any) -> dict[str, Any]:
    """Return the variables that random layers draw from: Keras counts them to no weights."""
    weights = {id(v) for v in model.weights}
    return {v.path: v for v in model.variables if id(v) not in weights}


def draw(seeds: Mapping[str, Any], *numbers: int) -> None:
    """Set random states from these numbers: give each rank its own, for dropout that differs."""
    generator = np.random.default_rng(numbers)
    for state in seeds.values():
        state.assign(generator.integers(2**31, size=tuple(state.shape)))


class State:
    """Model and optimizer of Keras 3 as a checkpoint: their variables by name, in numpy's npz.

    `same` are equal on all ranks. Each rank has its own of `moving`, the moving means of its
    batches, and of `random`, the states of its random numbers; their names begin with the rank.
    `before_saving` is called on all ranks.
    """

    def __init__(
        self,
        ranks: Ranks,
        model: Any,
        optimizer: Any,
        before_saving: Callable[[], None] | None = None,
    ) -> None:
        self.ranks, self.random, self.before_saving = ranks, seeds(model), before_saving
        self.same = {v.path: v for v in [*model.trainable_variables, *optimizer.variables]}
        self.moving = {v.path: v for v in model.non_trainable_weights}

    def signature(self) -> str:
        every = {**self.same, **self.moving}
        return checkpoints.signature((path, variable.shape) for path, variable in every.items())

    def pack(self, folder: Path) -> bytes:
        if self.before_saving is not None:
            self.before_saving()
        mine = {path: v.numpy() for path, v in {**self.moving, **self.random}.items()}
        everyone = self.ranks.gather(mine)
        arrays = {path: variable.numpy() for path, variable in self.same.items()}
        for rank, arrays_of_rank in enumerate(everyone):
            arrays |= {f"{rank}/{path}": array for path, array in arrays_of_rank.items()}
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        return stream.getvalue()

    def unpack(self, payload: bytes) -> None:
        saved = np.load(io.BytesIO(payload), allow_pickle=False)
        for path, variable in self.same.items():
            variable.assign(saved[path])
        variables = {**self.moving, **self.random}
        heads = (name.partition("/")[0] for name in saved.files)
        before = max((1 + int(head) for head in heads if head.isdecimal()), default=0)
        if not variables or before == self.ranks.size:
            for path, variable in variables.items():
                variable.assign(saved[f"{self.ranks.rank}/{path}"])
            return
        for path, variable in self.moving.items():
            variable.assign(np.mean([saved[f"{rank}/{path}"] for rank in range(before)], axis=0))
        drawn = [int(n) % 2**31 for path in self.random for n in saved[f"0/{path}"]]
        draw(self.random, self.ranks.rank, *drawn)


class Profiler:
    """Profiles steps `first` to `last` of this run into a folder; `step` is called after each."""

    def __init__(self, folder: str, first: int, last: int) -> None:
        self.folder, self.first, self.last = folder, first, last
        self.done, self.running = 0, False
        self.mark: Any = None
        self._start_if_next()

    def step(self) -> None:
        self.done += 1
        self._end_mark()
        if self.running and self.done == self.last:
            self.stop()
        self._start_if_next()

    def stop(self) -> None:
        self._end_mark()
        if self.running:
            tf.profiler.experimental.stop()
        self.running = False

    def _start_if_next(self) -> None:
        if self.done + 1 == self.first:
            tf.profiler.experimental.start(self.folder)
            self.running = True
        if self.running:  # by these marks the profile has a time for each step
            self.mark = tf.profiler.experimental.Trace("train", step_num=self.done + 1, _r=1)
            self.mark.__enter__()

    def _end_mark(self) -> None:
        if self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None


def read_ahead(args: Namespace, dataset: Any, keys: Iterable[Any]) -> Iterator[Any]:
    """Yield the images and labels of `keys` (epoch, indices), read by threads.

    Raises `UserError` for an image that cannot be read.
    """

    def read(epoch: Any, indices: Any) -> tuple[Any, Any, bytes]:
        try:
            return (*dataset.read(int(epoch), indices), b"")
        except UserError as error:
            return (*dataset.read(int(epoch), indices[:0]), str(error).encode())

    def parallel(epoch: Any, indices: Any) -> Any:
        return tf.numpy_function(read, [epoch, indices], [tf.uint8, tf.int64, tf.string])

    shapes = tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)
    stream = tf.data.Dataset.from_generator(lambda: keys, output_signature=shapes)
    workers = threads(1) if args.workers is None else max(1, args.workers)
    stream = stream.map(parallel, num_parallel_calls=workers, deterministic=True)
    for pixels, labels, fault in stream.prefetch(tf.data.AUTOTUNE):
        if message := fault.numpy().decode():
            raise UserError(message)
        yield pixels, labels
