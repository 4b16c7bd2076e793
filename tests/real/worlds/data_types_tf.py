"""bfloat16 in TensorFlow: exchanged, reduced, compressed; a tape with a layer that stays local."""

from __future__ import annotations

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
rank, size = hvd.rank(), hvd.size()
terms = [tf.random.stateless_normal([1003], seed=[number, 0]) for number in range(size)]
terms = [tf.cast(term, tf.bfloat16) for term in terms]
exact = tf.stack([tf.cast(term, tf.float32) for term in terms])
mine, total = terms[rank], tf.reduce_sum(exact, 0)
error = size * 2**-8 * tf.reduce_sum(abs(exact), 0)


def check(value: tf.Tensor, expected: tf.Tensor, allowed: tf.Tensor) -> None:
    assert value.dtype == tf.bfloat16
    assert bool(tf.reduce_all(abs(tf.cast(value, tf.float32) - expected) <= allowed))


def same(value: tf.Tensor, expected: tf.Tensor) -> bool:
    return bool(tf.reduce_all(value == tf.cast(expected, tf.bfloat16)))


check(hvd.allreduce(mine, op=hvd.Sum, name="sum"), total, error)
# The average is that of TensorFlow: the sum is rounded, and again divided.
check(hvd.allreduce(mine, op=hvd.Average, name="average"), total / size, 2 * error / size)
scale = {"prescale_factor": 0.5, "postscale_factor": 4.0}
check(hvd.allreduce(mine, op=hvd.Sum, name="scaled", **scale), 2 * total, 2 * error)
assert same(hvd.allreduce(mine, op=hvd.Min, name="min"), tf.reduce_min(exact, 0))
assert same(hvd.allreduce(mine, op=hvd.Max, name="max"), tf.reduce_max(exact, 0))
product = tf.reduce_prod(exact, 0)
allowed = size * 2**-8 * abs(product) + 2**-100
check(hvd.allreduce(mine, op=hvd.Product, name="product"), product, allowed)
pair = hvd.grouped_allreduce([mine, mine[:5]], op=hvd.Sum)
check(pair[0], total, error)
check(pair[1], total[:5], error[:5])
assert same(hvd.allgather(mine, name="rows"), tf.concat(terms, 0))
assert same(hvd.broadcast(mine, 1, name="root"), terms[1])
rows = 1000 // size
parts = hvd.alltoall(mine[: rows * size], name="parts")
assert same(parts, tf.concat([term[rank * rows : (rank + 1) * rows] for term in terms], 0))
part = hvd.reducescatter(mine[: rows * size], op=hvd.Sum, name="part")
own = slice(rank * rows, (rank + 1) * rows)
check(part, total[own], error[own])
packed = hvd.allreduce(exact[rank], op=hvd.Sum, name="packed", compression=hvd.Compression.bf16)
assert packed.dtype == tf.float32
assert bool(tf.reduce_all(abs(packed - total) <= error))

variable = tf.Variable(mine)
hvd.broadcast_variables([variable], root_rank=0, inplace=True)
assert same(variable, terms[0])
with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
    loss = tf.reduce_sum(variable * float(rank + 1))
assert float(tape.gradient(loss, [variable])[0][0]) == (size + 1) / 2

local = tf.keras.layers.Dense(1, dtype="float16")
local.build((None, 2))
tape = hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[local])
with tape:
    loss = tf.reduce_sum(local(tf.ones([1, 2], tf.float16)))
os.environ["HOROVOD_ELASTIC"] = "1"  # the number of ranks is a tensor then
assert float(tape.gradient(loss, local.trainable_variables)[0][0, 0]) == 1 / size
print("reduced", flush=True)
