"""The ranks of tf.distribute.MultiWorkerMirroredStrategy, under the names of Horovod's functions.

TF_CONFIG tells each rank who the workers are, and which of them it is; `runner launch --tf-config`
sets it. Without it there is one rank.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
from typing import Any

import numpy as np
import tensorflow as tf

from recipes.common import UserError

WORD = 4  # bytes: the collectives gather no smaller numbers


class World:
    """All workers. The strategy is made at its first use.

    It must come before whatever TensorFlow computes, and after its threads and devices are chosen.
    """

    Average = tf.distribute.ReduceOp.MEAN

    def __init__(self) -> None:
        self.workers, self.number = _cluster(os.environ.get("TF_CONFIG", "{}"))

    @functools.cached_property
    def strategy(self) -> tf.distribute.Strategy:
        """The strategy, which meets the other workers. Collective."""
        return tf.distribute.MultiWorkerMirroredStrategy()

    def rank(self) -> int:
        return self.number

    def size(self) -> int:
        return len(self.workers)

    def _of_host(self) -> list[int]:
        hosts = [address.rpartition(":")[0] for address in self.workers]
        return [rank for rank, host in enumerate(hosts) if host == hosts[self.number]]

    def local_rank(self) -> int:
        return self._of_host().index(self.number)

    def local_size(self) -> int:
        return len(self._of_host())

    def mpi_enabled(self) -> bool:
        return False  # Horovod is not there

    gloo_enabled = mpi_enabled

    def allreduce(self, tensor: tf.Tensor, op: Any, name: str) -> tf.Tensor:
        """Return the mean of all ranks' tensors, within `strategy.run`."""
        return tf.distribute.get_replica_context().all_reduce(op, tensor)

    def allgather_object(self, mine: Any, name: str) -> list[Any]:
        packed = pickle.dumps(mine)
        words = np.frombuffer(packed + bytes(-len(packed) % WORD), np.int32)
        lengths, every = (found.numpy() for found in self._gather(words))
        pieces = np.split(every, np.cumsum(lengths)[:-1])
        # TensorFlow's own servers, which bring it, run code for whoever reaches them anyway.
        return [pickle.loads(each.tobytes()) for each in pieces]  # noqa: S301

    @functools.cached_property
    def _gather(self) -> Any:
        """What gathers numbers of all ranks: how many each has, and all of them in a row."""
        strategy = self.strategy  # it cannot be made within a function

        def each(mine: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            context, mine = tf.distribute.get_replica_context(), tf.identity(mine)  # on its device
            return context.all_gather(tf.shape(mine), 0), context.all_gather(mine, 0)

        def gather(mine: tf.Tensor) -> Any:
            return strategy.run(each, args=(mine,))

        return tf.function(gather, [tf.TensorSpec([None], tf.int32)], autograph=False)

    def broadcast_object(self, mine: Any, root_rank: int, name: str) -> Any:
        return self.allgather_object(mine if self.number == root_rank else None, name)[root_rank]

    def shutdown(self) -> None:
        """Return when every rank has what was gathered before. Collective.

        A rank that ends takes its connections along, from under a gathering too that is over here
        and not on all ranks yet. This one more may fail so: nobody needs what it gathers.
        """
        with contextlib.suppress(tf.errors.OpError):
            self.allgather_object(None, name="leave")


def _cluster(text: str) -> tuple[list[str], int]:
    """Return the addresses of all workers, and which of them this one is."""
    try:
        config = json.loads(text)
        if not config:
            return ["localhost:0"], 0
        return list(config["cluster"]["worker"]), int(config["task"]["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"TF_CONFIG must name workers and this rank's index, not {text!r}: {error!r}"
        ) from error
