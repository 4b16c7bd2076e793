"""Trainings of TensorFlow and Keras that are hard to judge: `judged_tf.py NAME`.

Wrong ones end with different weights; right ones are as their authors want them.
"""

import os
import sys

if sys.argv[1] == "keras_on_torch":
    os.environ["KERAS_BACKEND"] = "torch"

import numpy

if "KERAS_BACKEND" not in os.environ:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()


def data(rank, step):
    values = numpy.random.default_rng(100 * rank + step).normal(size=(16, 8)).astype("float32")
    return values, values.sum(1, keepdims=True)


def own_loop(gradients_of, graph=False, seed=0):
    """Train variables of TensorFlow without an optimizer."""
    tf.random.set_seed(seed)
    weights, bias = tf.Variable(tf.random.normal((8, 1))), tf.Variable(tf.zeros(1))

    def step(values, target):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((values @ weights + bias - target) ** 2)
        for variable, gradient in zip((weights, bias), gradients_of(tape, loss, [weights, bias])):
            variable.assign_sub(0.05 * gradient)

    step = tf.function(step) if graph else step
    for number in range(12):
        step(*map(tf.constant, data(hvd.rank(), number)))


def plain(tape, loss, variables):
    return tape.gradient(loss, variables)


# Wrong ones ------------------------------------------------------------------------------------


def tape_without_optimizer():
    own_loop(plain)


def tape_without_optimizer_in_a_graph():
    own_loop(plain, graph=True)


def keras_on_torch():
    """Keras on PyTorch, by torch.distributed: the model is in no DistributedDataParallel."""
    import keras
    import torch.distributed as dist

    dist.init_process_group("gloo")
    keras.utils.set_random_seed(0)
    net = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.01), "mse")
    net.fit(*data(dist.get_rank(), 0), batch_size=4, epochs=2, verbose=0)


# Right ones ------------------------------------------------------------------------------------


def wrapped_tape_without_optimizer():
    own_loop(lambda tape, *rest: hvd.DistributedGradientTape(tape).gradient(*rest))


def tape_averaged_by_hand():
    own_loop(lambda *rest: [hvd.allreduce(gradient) for gradient in plain(*rest)], graph=True)


def an_input_of_each_rank():
    """A gradient that is only looked at, of a variable that nothing trains."""
    image = tf.Variable(data(hvd.rank(), 5)[0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(image**2)
    tape.gradient(loss, image)
    own_loop(lambda *rest: [hvd.allreduce(gradient) for gradient in plain(*rest)])


globals()[sys.argv[1]]()
print("trained", sys.argv[1], flush=True)
