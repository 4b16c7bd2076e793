"""What the TensorFlow trainers share: the device, precision, the exchange, checkpoints, profiles.

For Keras 3, which wraps TensorFlow's variables; Horovod and tapes need those inside: `v.value`.
"""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recipes import common
from recipes.common import UserError
from recipes.common.run import Run


def with_device(args: Namespace, hvd: Any) -> tuple[Namespace, str]:
    """Choose a GPU if one is visible and wanted, else the CPU; return the settings and "gpu" or so.

    Also sets this rank's threads, and the precision of layers built from now on. TensorFlow takes
    threads and devices only before it computes anything, and exchanging an error is computing: so
    this belongs with the reading of the settings. Raises `UserError` for a GPU that is not there,
    float16 on a CPU, and Adasum where it is not possible.
    """
    threads = common.threads(hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    common.check_adasum(args, hvd)
    gpus = tf.config.list_physical_devices("GPU")
    if args.device == "cpu" or not gpus:
        tf.config.set_visible_devices([], "GPU")
        _refuse_on_cpu(args)
    else:
        # Horovod: the ranks of one host take its GPUs in turn.
        mine = gpus[hvd.local_rank() % len(gpus)]
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)
    kinds = {"bf16": "mixed_bfloat16", "amp": "mixed_float16"}
    policy = next((kind for option, kind in kinds.items() if getattr(args, option)), "float32")
    tf.keras.mixed_precision.set_global_policy(policy)
    return args, "gpu" if tf.config.get_visible_devices("GPU") else "cpu"


def _refuse_on_cpu(args: Namespace) -> None:
    if args.device == "gpu":
        raise UserError("--device gpu: this rank sees no GPU. Was one asked for? --device auto")
    if args.amp:
        raise UserError("--amp needs a GPU for its float16; --bf16 works on CPUs too")


def scaled(args: Namespace, optimizer: Any) -> Any:
    """Return the optimiser, for `--amp` one that scales losses so that gradients do not vanish."""
    if not args.amp:
        return optimizer
    return tf.keras.optimizers.LossScaleOptimizer(optimizer)


def goal(args: Namespace, optimizer: Any, loss: tf.Tensor) -> tf.Tensor:
    """Return what to take the gradient of: the loss, for `--amp` the scaled one."""
    return optimizer.scale_loss(loss) if args.amp else loss


def passes(args: Namespace, batch: common.Batch) -> list[tuple[Any, Any]]:
    """Return the samples of each backward pass of a step, and the factor for their sum of losses.

    The factor is that of the mean over all ranks, for Adasum that of this rank's own. An empty part
    is one sample of factor 0: TensorFlow 2.21 with oneDNN fails on convolutions of nothing ("input
    depth must be evenly divisible by filter depth").
    """
    factor = tf.constant(1 / max(1, batch.own) if args.adasum else batch.weight, tf.float32)
    nothing = np.zeros(1, np.int64), tf.constant(0.0)
    return [(part, factor) if len(part) else nothing for part in batch.parts]


def earlier_passes(backward: Any, parts: Sequence[Any]) -> list[Any]:
    """Return the sums of what `backward` returns for all parts of a step but the last.

    Empty if there is but one. Apart from the compiled step, which has the network once like this,
    and the memory of one pass.
    """
    sums: list[Any] = []
    for part in parts[:-1]:
        sums = add(sums, backward(*part))
    return sums


def specification(args: Namespace, model: Any) -> list[Any]:
    """Say what `earlier_passes` returns, for the signature of a compiled step."""
    if args.batches_per_allreduce == 1:
        return []
    weights = [tf.TensorSpec(v.shape, tf.float32) for v in model.trainable_variables]
    return [tf.TensorSpec([], tf.float32), *weights]


def add(sums: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    """Add numbers one by one; no sums are zeros."""
    return [a + b for a, b in zip(sums, more)] if sums else list(more)


def exchange(args: Namespace, hvd: Any, gradients: Sequence[Any], loss: Any, flags: Any) -> Any:
    """Return the gradients of all ranks together, and the flags of all, for `Agreement`.

    Part of the compiled step; the flags travel while the gradients do.
    """
    factor = args.gradient_predivide_factor
    scales = {"prescale_factor": 1 / factor, "postscale_factor": factor} if factor != 1 else {}
    # Horovod: each gradient sets out as soon as it is there, while others are still computed.
    together = [
        hvd.allreduce(
            gradient,
            op=hvd.Adasum if args.adasum else hvd.Average,
            compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
            name=f"gradient.{number}",
            **scales,
        )
        for number, gradient in enumerate(gradients)
    ]
    bad = tf.cast(~tf.math.is_finite(loss), tf.float32)
    # Horovod: the gradients' kind of reduction, so that they may travel as one.
    return together, hvd.allreduce(tf.concat([flags, [bad]], 0), op=hvd.Average, name="flags")


class Agreement:
    """All ranks learn in the same step that one was asked to stop, has diverged or cannot read.

    What they exchange are three numbers a step, in the compiled step, with the gradients.
    """

    def __init__(self, hvd: Any, run: Run) -> None:
        self.hvd, self.run = hvd, run
        self.failure: UserError | None = None

    def read(self, source: Any, part: common.Indices) -> Any:
        """Return `source[part]`; if that raises `UserError`, a blank: `stop` ends all ranks then.

        The other ranks wait for this one's gradients in this step, so it still takes part.
        """
        try:
            return source[part]
        except UserError as error:
            self.failure = error
            return source.blank()

    def flags(self) -> tf.Tensor:
        """Return what this rank has to tell, for the step."""
        return tf.constant([float(bool(self.run.stop)), float(self.failure is not None)])

    def stop(self, flags: tf.Tensor, loss: tf.Tensor) -> bool:
        """Return whether to stop now, from the flags of all ranks and this one's loss.

        A loss of NaN, and data that a rank could not read, end all ranks here. Collective.
        """
        asked, unread, bad = flags.numpy()
        if unread:
            common.together(self.hvd, self._tell)
        if bad:
            self.run.check_loss(float(loss), self.run.course.step + 1)
        return bool(asked)

    def _tell(self) -> None:
        if self.failure is not None:
            raise self.failure


def seeds(model: Any) -> dict[str, Any]:
    """Return the variables that random layers draw from: Keras counts them to no weights."""
    weights = {id(v) for v in model.weights}
    return {v.path: v for v in model.variables if id(v) not in weights}


def draw_apart(args: Namespace, hvd: Any, seeds: Mapping[str, Any]) -> None:
    """Give each rank random states of its own, for dropout that differs."""
    # Horovod: the number among all ranks.
    _draw(seeds, [args.seed, hvd.rank()])


def _draw(seeds: Mapping[str, Any], numbers: Sequence[int]) -> None:
    generator = np.random.default_rng(numbers)
    for state in seeds.values():
        state.assign(generator.integers(2**31, size=tuple(state.shape)))


def state(hvd: Any, model: Any, optimizer: Any) -> State:
    """Return what a checkpoint holds of a model and an optimiser of Keras 3."""
    same = {v.path: v for v in [*model.trainable_variables, *optimizer.variables]}
    return State(hvd, same, {v.path: v for v in model.non_trainable_weights}, seeds(model))


class State:
    """Variables by name, as a checkpoint (see common.State).

    `same` are equal on all ranks. Each rank has its own of `moving`, the moving means of its
    batches, and of `random`, the states of its random numbers. The payload is numpy's npz; names of
    the last two begin with the rank: `0/dropout/...`.
    """

    def __init__(
        self, hvd: Any, same: dict[str, Any], moving: dict[str, Any], random: dict[str, Any]
    ) -> None:
        self.hvd, self.same, self.moving, self.random = hvd, same, moving, random
        self.own: list[dict[str, Any]] = []

    def signature(self) -> str:
        """Tell this model's weights from another's."""
        every = {**self.same, **self.moving}
        return common.signature((path, variable.shape) for path, variable in every.items())

    def gather(self) -> None:
        """Collect each rank's own. Collective."""
        mine = {path: v.numpy() for path, v in {**self.moving, **self.random}.items()}
        # Horovod: each rank draws its own dropout and sees its own batches.
        self.own = self.hvd.allgather_object(mine, name="own")

    def write(self, stream: Any) -> None:
        """Write everything, readable by numpy.load without pickle. Rank 0 only."""
        arrays = {path: variable.numpy() for path, variable in self.same.items()}
        for rank, own in enumerate(self.own):
            arrays |= {f"{rank}/{path}": array for path, array in own.items()}
        packed = io.BytesIO()  # numpy wants a stream that it could read too
        np.savez(packed, **arrays)
        stream.write(packed.getbuffer())

    def restore(self, payload: bytes) -> str:
        """Take over what was written; return what could not be, in words."""
        found = np.load(io.BytesIO(payload), allow_pickle=False)
        for path, variable in self.same.items():
            variable.assign(found[path])
        own = {**self.moving, **self.random}
        before = _ranks_in(found)
        if not own or before == self.hvd.size():
            for path, variable in own.items():
                variable.assign(found[f"{self.hvd.rank()}/{path}"])
            return ""
        for path, variable in self.moving.items():
            variable.assign(np.mean([found[f"{rank}/{path}"] for rank in range(before)], axis=0))
        drawn = [number for path in self.random for number in found[f"0/{path}"].tolist()]
        _draw(self.random, [self.hvd.rank(), *(number % 2**31 for number in drawn)])
        return f"random states are those of {before} ranks: drawn anew for {self.hvd.size()}"


def _ranks_in(found: Any) -> int:
    heads = (name.partition("/")[0] for name in found.files)
    return max((1 + int(head) for head in heads if head.isdecimal()), default=0)


class Profile:
    """Profiles the steps of `--profile` on rank 0, into `profile` in the output folder.

    `step()` is called after each step, `stop()` at the end; steps count from this run's first.
    """

    def __init__(self, args: Namespace, run: Run) -> None:
        self.folder = str(run.folder / "profile")
        wanted: tuple[int, int] | None = args.profile if run.speaks else None
        self.first, self.last = wanted if wanted else (0, 0)  # steps count from 1
        self.done, self.running = 0, False
        self._start_if_next()

    def step(self) -> None:
        """Count a step."""
        self.done += 1
        if self.running and self.done == self.last:
            self.stop()
        self._start_if_next()

    def stop(self) -> None:
        """Write what was seen, if it is not written yet."""
        if self.running:
            tf.profiler.experimental.stop()
        self.running = False

    def _start_if_next(self) -> None:
        if self.done + 1 == self.first:
            tf.profiler.experimental.start(self.folder)
            self.running = True
