"""A training run with TensorFlow: device, precision, the exchange, agreeing on a stop, profiles.

For Keras 3, which wraps TensorFlow's variables; Horovod and tapes need those inside: `v.value`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from recipes import common, options, tf_checkpoint


def start(hvd: Any, settings: Callable[[], Namespace]) -> tuple[Namespace, str]:
    """Read the settings and take this rank's device; an error on any rank stops all. Collective."""
    return common.on_all_ranks(hvd, lambda: with_device(settings(), hvd))


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
    options.check_adasum(args, hvd)
    gpus = tf.config.list_physical_devices("GPU")
    if args.device == "cpu" or not gpus:
        tf.config.set_visible_devices([], "GPU")
        options.check_cpu(args)
    else:
        # Horovod: the ranks of one host take its GPUs in turn.
        mine = gpus[hvd.local_rank() % len(gpus)]
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)
    kinds = {"bf16": "mixed_bfloat16", "amp": "mixed_float16"}
    policy = next((kind for option, kind in kinds.items() if getattr(args, option)), "float32")
    tf.keras.mixed_precision.set_global_policy(policy)
    return args, "gpu" if tf.config.get_visible_devices("GPU") else "cpu"


def scaled(args: Namespace, optimizer: Any) -> Any:
    """Return the optimiser, for `--amp` one that scales losses so that gradients do not vanish."""
    if not args.amp:
        return optimizer
    return tf.keras.optimizers.LossScaleOptimizer(optimizer)


def losses(guesses: Any, labels: Any) -> Any:
    """Return the loss of each sample, in float32 whatever the model computes in."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(guesses, tf.float32))


class Run(common.Run):
    """What `common.Run` is, for a model of TensorFlow."""

    def __init__(self, args: Namespace, hvd: Any, trainer: str, device: str, *, about: str) -> None:
        versions = {"tensorflow": tf.__version__}
        super().__init__(args, hvd, trainer, device=device, versions=versions, about=about)

    def resume(self, state: tf_checkpoint.State, shards: common.Shards) -> None:
        """Go on from a checkpoint, or begin, as `--resume` says; see `common.Run.begin`."""
        self.begin(state, shards)
        if self.args.profile is not None and self.speaks:
            self.profiler = Profiler(str(self.folder / "profile"), *self.args.profile)

    def scalar(self, value: float) -> tf.Tensor:
        return tf.constant(value)

    def set_rate(self, optimizer: Any, rate: float) -> None:
        self.rate = rate
        optimizer.learning_rate.assign(rate)

    def goal(self, optimizer: Any, loss: tf.Tensor) -> tf.Tensor:
        """Return what to take the gradient of: the loss, for `--amp` the scaled one."""
        return optimizer.scale_loss(loss) if self.args.amp else loss

    def average(self, gradients: Sequence[Any]) -> list[Any]:
        """Return the gradients of all ranks together, as the options say. In the compiled step."""
        factor = self.args.gradient_predivide_factor
        scales = {"prescale_factor": 1 / factor, "postscale_factor": factor} if factor != 1 else {}
        fp16 = self.args.fp16_allreduce
        # Horovod: each gradient sets out as soon as it is there, while others are still computed.
        return [
            self.hvd.allreduce(
                gradient,
                op=self.hvd.Adasum if self.args.adasum else self.hvd.Average,
                compression=self.hvd.Compression.fp16 if fp16 else self.hvd.Compression.none,
                name=f"gradient.{number}",
                **scales,
            )
            for number, gradient in enumerate(gradients)
        ]

    def compile(
        self, model: Any, optimizer: Any, backward: Callable[..., Any], part: list[Any]
    ) -> None:
        """Compile what `step` does: all backward passes, and one update of the weights.

        `backward(x, y, weight)` returns the loss of a part and its gradients, of which the sums are
        exchanged and applied; `part` are the specifications of x and y. Passes but the last one are
        calls of their own: so the step has the network once, and the memory of one pass.
        """
        one_pass = tf.function(backward, [*part, tf.TensorSpec([])], autograph=False)

        def step(x: Any, y: Any, weight: Any, before: Any, flags: Any) -> Any:
            loss, *gradients = add(before, one_pass(x, y, weight))
            flags = self.exchange(flags, loss)
            optimizer.apply_gradients(zip(self.average(gradients), model.trainable_variables))
            return loss, flags

        sums = [tf.TensorSpec([]), *(tf.TensorSpec(v.shape) for v in model.trainable_variables)]
        before = [] if self.args.batches_per_allreduce == 1 else sums
        more = [tf.TensorSpec([]), before, tf.TensorSpec([2])]
        self.one_pass: Any = one_pass
        self.train_on: Any = tf.function(step, [*part, *more], autograph=False)

    def step(self, read: Callable[[Any], Any], blank: Any = None) -> None:
        """Do a step of training on what `read` returns for each part: x and y. Collective.

        Where it raises `UserError`, `blank()` stands for them until all ranks know of it.
        Saves if it is time to; ends all ranks if one was asked to stop, has a loss that is no
        number, or could not read its samples.
        """
        parts = [
            (*self.read_or(partial(read, part), blank), weight) for part, weight in self._passes()
        ]
        before: list[Any] = []
        for part in parts[:-1]:
            before = add(before, self.one_pass(*part))
        loss, flags = self.train_on(*parts[-1], before, self.flags())
        self.step_done(loss, stop=self.agreed(flags, loss))

    # All ranks learn in the same step that one was asked to stop, has diverged or cannot read. What
    # they exchange are three numbers a step, in the compiled step, with the gradients.

    def flags(self) -> tf.Tensor:
        """Return what this rank has to tell, for the step."""
        return tf.constant([float(bool(self.stop)), float(self.failure is not None)])

    def exchange(self, flags: tf.Tensor, loss: tf.Tensor) -> tf.Tensor:
        """Return the flags of all ranks, and whether one has a bad loss. In the compiled step."""
        bad = tf.cast(~tf.math.is_finite(loss), tf.float32)
        # Horovod: the gradients' kind of reduction, so that they may travel as one.
        return self.hvd.allreduce(tf.concat([flags, [bad]], 0), op=self.hvd.Average, name="flags")

    def agreed(self, flags: tf.Tensor, loss: tf.Tensor) -> bool:
        """Return whether to stop now (see `heed`), by all ranks' flags. Collective."""
        asked, unread, bad = flags.numpy()
        return self.heed(asked, unread, bad, loss, self.loop.step + 1)

    def _passes(self) -> list[tuple[Any, Any]]:
        """Return the samples of each backward pass, and the factor for their sum of losses.

        The factor is that of the mean over all ranks, for Adasum that of this rank's own. An empty
        part is one sample of factor 0: TensorFlow 2.21 with oneDNN fails on convolutions of nothing
        ("input depth must be evenly divisible by filter depth").
        """
        own = 1 / max(1, self.batch.own)
        factor = tf.constant(own if self.args.adasum else self.batch.weight, tf.float32)
        nothing = np.zeros(1, np.int64), tf.constant(0.0)
        return [(part, factor) if len(part) else nothing for part in self.batch.parts]

    def evaluate(
        self, count: int, guess: Callable[[common.Indices], Any],
        at_once: int = common.EVALUATION_BATCH,
    ) -> list[float]:  # fmt: skip
        """Test this rank's share of `count` samples, `at_once` of them at a time.

        `guess` returns guesses and truth for them. Returns its sum of losses, its right answers
        and its size.
        """
        loss = right = 0.0
        parts = self.test_parts(count, at_once)
        for part in parts:
            guesses, truth = guess(part)
            loss += float(tf.reduce_sum(losses(guesses, truth)))
            right += int(np.sum(np.argmax(guesses.numpy(), 1) == truth))
        return [loss, right, sum(map(len, parts))]

    def finish(self, model: Any, **facts: Any) -> None:
        """Check that all ranks have the same model, and write result.json. Collective."""
        self.conclude((weight.numpy() for weight in model.trainable_variables), **facts)


def add(sums: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    """Add numbers one by one; no sums are zeros."""
    return [a + b for a, b in zip(sums, more)] if sums else list(more)


class Profiler:
    """Profiles the steps of `--profile` into a folder.

    `step()` is called after each step, `stop()` at the end; steps count from this run's first.
    """

    def __init__(self, folder: str, first: int, last: int) -> None:
        self.folder, self.first, self.last = folder, first, last
        self.done, self.running = 0, False
        self._start_if_next()

    def step(self) -> None:
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
