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


def by_tape(wrap, local=False):
    import horovod.tensorflow as hvd

    rank, net, optimizer = horovod(), model(), tf.keras.optimizers.SGD(0.01)
    values, target = data(rank)
    for at in range(0, 64, 16):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(values[at : at + 16]) - target[at : at + 16]) ** 2)
        variables = [getattr(variable, "value", variable) for variable in net.trainable_variables]
        tape = hvd.DistributedGradientTape(tape) if wrap else tape
        if local:
            tape.register_local_source(variables[0])
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


def local_source():
    by_tape(True, local=True)


def local_variable():
    import horovod.tensorflow.keras as hvd

    rank, net = horovod(), model()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01))
    optimizer.register_local_var(net.trainable_variables[0])
    fit(net, optimizer, rank)


keras_2_local_variable = local_variable


def mirrored():
    """A loop: under Keras 3.15 `fit` fails in a world of several workers."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        net, optimizer = model(), tf.keras.optimizers.SGD(0.01)

    def step(values, target):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(values) - target) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables))

    values = tf.data.Dataset.from_tensor_slices(data(0)).batch(16)
    for part in strategy.experimental_distribute_dataset(values):
        tf.function(strategy.run)(step, args=part)


def keras_2_mirrored():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        net = model()
        net.compile(tf.keras.optimizers.SGD(0.01), "mse")
    net.fit(tf.data.Dataset.from_tensor_slices(data(0)).batch(16), epochs=2, verbose=0)


def outside_the_scope():
    strategy, net = tf.distribute.MultiWorkerMirroredStrategy(), model()
    rank = strategy.cluster_resolver.task_id
    fit(net, tf.keras.optimizers.SGD(0.01), rank)


def keras_2():
    import horovod.tensorflow.keras as hvd

    rank = horovod()
    fit(model(), hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), rank)


globals()[sys.argv[1]]()
print("trained", sys.argv[1], flush=True)
