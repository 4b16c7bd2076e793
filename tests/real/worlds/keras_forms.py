"""Every form of Keras with Horovod, one after the other in one world: each trains one model.

Each rank trains on data of its own. Afterwards all ranks have the same weights, and they are those
of one process that had all data. Arguments: names of forms, without them all; `--half` tries half
of all combinations, in which each two choices still meet.
"""

import os
import sys
from itertools import product

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import horovod.keras as by_keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as by_tf
import keras
import numpy as np
import tensorflow as tf

os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
STEPS, BATCH = 6, 4
random = np.random.default_rng(1)
X = random.normal(size=(STEPS, SIZE, BATCH, 5)).astype("float32")
Y = (X.sum(-1, keepdims=True) + random.normal(size=(STEPS, SIZE, BATCH, 1))).astype("float32")
KERAS_2 = tf.keras if os.environ.get("TF_USE_LEGACY_KERAS") == "1" else None
KERASES = [tf.keras, keras] if KERAS_2 else [tf.keras]
HALF = "--half" in sys.argv
KNOWN, FORMS = {}, {}


BOTH = (False, True)


def form(function):
    FORMS[function.__name__] = function
    return function


def ways(*choices):
    """Yield all combinations of the choices, or half of them."""
    for places in product(*(range(len(values)) for values in choices)):
        if not HALF or sum(places) % 2 == 0:
            yield [values[place] for values, place in zip(choices, places)]


def data(rank):
    """A rank's samples in the order of its steps; those of all with None."""
    mine = slice(None) if rank is None else slice(rank, rank + 1)
    return X[:, mine].reshape(-1, 5), Y[:, mine].reshape(-1, 1)


def model_of(of, seed=3):
    of.utils.set_random_seed(seed)
    layers = of.layers
    return of.Sequential(
        [of.Input((5,)), layers.Dense(4, "tanh"), layers.Dense(3, "tanh"), layers.Dense(1)]
    )


def sgd(of, **options):
    return of.optimizers.SGD(0.1, momentum=0.9, **options)


def fit(model, rank, **options):
    x, y = data(rank)
    size = BATCH if rank is not None else BATCH * SIZE
    model.fit(x, y, batch_size=size, shuffle=False, verbose=0, **options)
    return model


def plain_tape(tape):
    return tape


def loop(model, optimizer, graph, tape_of=plain_tape, of=tf.keras):
    """Train in a loop of one's own."""
    loss = of.losses.MeanSquaredError()

    def step(x, y):
        with tape_of(tf.GradientTape()) as tape:
            value = loss(y, model(x, training=True))
        grads = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    step = tf.function(step) if graph else step
    for x, y in zip(X, Y):
        step(tf.constant(x[RANK]), tf.constant(y[RANK]))
    return model


def weights(model):
    return np.concatenate([w.ravel() for w in model.get_weights()])


def reference(of, **options):
    """Return the weights that one process learns from all data."""

    def trained():
        model = model_of(of)
        model.compile(sgd(of, **options), "mse")
        return weights(fit(model, None))

    return once((of.__name__, *options.items()), trained)


def once(name, trained):
    """Return what `trained` returns; it is not called again with that name."""
    if name not in KNOWN:
        KNOWN[name] = trained()
    return KNOWN[name]


def equal(model, expected=None, name=""):
    """All ranks have equal weights, and those that are expected."""
    mine = weights(model)
    every = hvd.allgather_object(mine)
    for rank, theirs in enumerate(every):
        assert np.array_equal(mine, theirs), f"{name}: rank {rank} has other weights"
    assert np.isfinite(mine).all()
    if expected is not None:
        assert np.allclose(mine, expected, rtol=1e-3, atol=1e-5), (name, mine - expected)


@form
def fits():
    """`fit` in graphs and eagerly, with both modules, with and without the callback."""
    for of, module, eager, broadcast in ways(KERASES, (by_keras, by_tf), BOTH, BOTH):
        calls = [module.callbacks.BroadcastGlobalVariablesCallback(0)] if broadcast else []
        model = model_of(of)
        model.compile(module.DistributedOptimizer(sgd(of)), "mse", run_eagerly=eager)
        name = f"{of.__name__} {module.__name__} eager={eager} {calls}"
        equal(fit(model, RANK, callbacks=calls), reference(of), name)


@form
def other_seeds():
    """Without the callback the ranks begin equal with the first step, with it before."""
    for of in KERASES:
        expected = reference(of)
        for calls in ([], [by_tf.callbacks.BroadcastGlobalVariablesCallback(0)]):
            model = model_of(of, 3 + RANK)
            model.compile(by_tf.DistributedOptimizer(sgd(of)), "mse")
            begun_alike = calls and of is not KERAS_2  # whose callback comes after a step
            equal(fit(model, RANK, callbacks=calls), expected if begun_alike else None)
        for graph in (False, True):
            model = model_of(of, 3 + RANK)
            equal(loop(model, by_tf.DistributedOptimizer(sgd(of)), graph))


@form
def clips_and_accumulates():
    """What the optimizer does with gradients comes after they are averaged."""
    clips = [{"clipnorm": 0.05}, {"global_clipnorm": 0.1}, {"clipvalue": 0.02}]
    decay, twice = {"weight_decay": 0.1}, {"gradient_accumulation_steps": 2}
    for of in KERASES:
        every = [*clips, decay] if of is KERAS_2 else [*clips, decay, twice, {**twice, **clips[0]}]
        if HALF:  # each of them once, some together
            more = {} if of is KERAS_2 else twice
            every = [{**clips[0], **decay}, clips[1], {**clips[2], **more}]
        for options in every:
            model = model_of(of)
            model.compile(by_tf.DistributedOptimizer(sgd(of, **options)), "mse")
            equal(fit(model, RANK), reference(of, **options), options)


@form
def loops():
    """Loops of one's own: the optimizer averages, or the tape, or both, which is once."""
    tape = hvd.DistributedGradientTape
    makers = {
        "keras": (lambda of: by_keras.DistributedOptimizer(sgd(of)), plain_tape),
        "tape": (sgd, tape),
        "tf": (lambda of: by_tf.DistributedOptimizer(sgd(of)), plain_tape),
        "both": (lambda of: by_tf.DistributedOptimizer(sgd(of), op=hvd.Sum), tape),
        "hvd": (lambda of: hvd.DistributedOptimizer(sgd(of)), plain_tape),
    }
    for of, graph, name in ways(KERASES, BOTH, list(makers)):
        optimizer_of, tape_of = makers[name]
        model = loop(model_of(of), optimizer_of(of), graph, tape_of, of)
        equal(model, reference(of), f"{of.__name__} {name} {graph}")


@form
def accumulates_in_keras_2():
    """Horovod's own accumulation, in `fit` and in a loop of one's own."""
    if not KERAS_2:
        return

    def trained():
        model = model_of(KERAS_2)
        model.compile(sgd(KERAS_2), "mse")
        x, y = data(None)
        model.fit(x, y, batch_size=2 * SIZE * BATCH, shuffle=False, verbose=0)
        return weights(model)

    twice = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    for way in (fit, loop):
        model = model_of(KERAS_2)
        optimizer = by_tf.DistributedOptimizer(sgd(KERAS_2), **twice)
        model.compile(optimizer, "mse")
        model = fit(model, RANK) if way is fit else loop(model, optimizer, True, of=KERAS_2)
        equal(model, once("accumulated", trained), way.__name__)


def main():
    for name in [word for word in sys.argv[1:] if word != "--half"] or FORMS:
        FORMS[name]()
        print(f"right: {name}", flush=True)
    hvd.shutdown()
    print(f"all {len(FORMS)} forms are right", flush=True)


if __name__ == "__main__":
    main()
