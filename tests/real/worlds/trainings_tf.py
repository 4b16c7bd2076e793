"""Trainings of TensorFlow and Keras, right ones and wrong ones: `trainings_tf.py NAME`."""

import os
import sys

if sys.argv[1].startswith("keras_2"):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy
import tensorflow as tf


def model():
    tf.keras.utils.set_random_seed(0)
    return tf.keras.Sequential(
        [tf.keras.Input((8,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)]
    )


def data(rank):
    values = numpy.random.default_rng(rank).normal(size=(64, 8)).astype("float32")
    return values, values.sum(1, keepdims=True)


def fit(net, optimizer, rank, **more):
    net.compile(optimizer, "mse")
    net.fit(*data(rank), batch_size=16, epochs=2, verbose=0, shuffle=False, **more)


def by_tape(wrap):
    import horovod.tensorflow as hvd

    rank, net, optimizer = horovod(), model(), tf.keras.optimizers.SGD(0.01)
    values, target = data(rank)
    for at in range(0, 64, 16):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(values[at : at + 16]) - target[at : at + 16]) ** 2)
        variables = [getattr(one, "value", one) for one in net.trainable_variables]
        tape = hvd.DistributedGradientTape(tape) if wrap else tape
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), net.trainable_variables))


def horovod():
    import horovod.tensorflow as hvd

    hvd.init()
    return hvd.rank()


def keras_3_not_wrapped():
    fit(model(), tf.keras.optimizers.SGD(0.01), horovod())


def keras_2_not_wrapped():
    fit(model(), tf.keras.optimizers.SGD(0.01), horovod())


def tape_not_wrapped():
    by_tape(False)


def tape():
    by_tape(True)


def keras_2():
    import horovod.tensorflow.keras as hvd

    rank = horovod()
    fit(model(), hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), rank)


globals()[sys.argv[1]]()
print("trained", sys.argv[1], flush=True)
