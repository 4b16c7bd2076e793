"""The workers of TensorFlow's MultiWorkerMirroredStrategy, as ranks that exchange objects."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
from typing import Any

import numpy as np
import tensorflow as tf

from recipes.distributed import Ranks, UserError

WORD = 4  # bytes: the collectives gather no smaller numbers


class Workers:
    """The workers of TF_CONFIG, which `runner` sets; without it there is one.

    The strategy is made at its first use: before TensorFlow computes anything, and after its
    threads and devices are chosen.
    """

    def __init__(self) -> None:
        text = os.environ.get("TF_CONFIG") or "{}"
        self.addresses, self.rank = ["localhost:0"], 0
        try:
            if config := json.loads(text):
                self.addresses = list(config["cluster"]["worker"])
                self.rank = int(config["task"]["index"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"TF_CONFIG must name workers and this rank's index, not {text!r}: {error!r}"
            ) from error

    @functools.cached_property
    def strategy(self) -> tf.distribute.Strategy:
        return tf.distribute.MultiWorkerMirroredStrategy()  # Mirrored: finds the other workers.

    @functools.cached_property
    def _gather(self) -> Any:
        strategy = self.strategy  # it cannot be made within a function

        def each(mine: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            context, mine = tf.distribute.get_replica_context(), tf.identity(mine)  # on its device
            return context.all_gather(tf.shape(mine), 0), context.all_gather(mine, 0)

        def gather(mine: tf.Tensor) -> Any:
            return strategy.run(each, args=(mine,))

        return tf.function(gather, [tf.TensorSpec([None], tf.int32)], autograph=False)

    def gather(self, mine: Any) -> list[Any]:
        """Return all ranks' objects, by rank."""
        packed = pickle.dumps(mine)
        words = np.frombuffer(packed + bytes(-len(packed) % WORD), np.int32)
        lengths, every = (gathered.numpy() for gathered in self._gather(words))
        pieces = np.split(every, np.cumsum(lengths)[:-1])
        # TensorFlow's own servers, which send it, run code for every client anyway.
        return [pickle.loads(piece.tobytes()) for piece in pieces]  # noqa: S301

    def close(self) -> None:
        """Return when every rank has what was gathered before.

        A rank that ends takes its connections along, from under a gathering too that is over here
        and not on all ranks yet. This one more may fail so: nobody needs what it gathers.
        """
        with contextlib.suppress(tf.errors.OpError):
            self.gather(None)

    def ranks(self) -> Ranks:
        hosts = [address.rpartition(":")[0] for address in self.addresses]
        local = [rank for rank, host in enumerate(hosts) if host == hosts[self.rank]]
        return Ranks(
            rank=self.rank,
            size=len(hosts),
            local_rank=local.index(self.rank),
            local_size=len(local),
            gather=self.gather,
            broadcast=lambda mine: self.gather(mine if self.rank == 0 else None)[0],
            close=self.close,
        )
