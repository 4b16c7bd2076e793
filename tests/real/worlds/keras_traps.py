"""Where Keras 3 with Horovod could go wrong: half precision, XLA, saved models, callbacks."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf
from keras_forms import (
    BATCH,
    FORMS,
    RANK,
    SIZE,
    STEPS,
    X,
    Y,
    by_keras,
    by_tf,
    data,
    equal,
    fit,
    form,
    hvd,
    main,
    model_of,
    once,
    reference,
    sgd,
    weights,
)  # fmt: skip

FORMS.clear()


def refuses(words, call, *args, **options):
    """The call raises ValueError with these words."""
    try:
        call(*args, **options)
    except ValueError as error:
        said = str(error)
    else:
        said = "nothing"
    assert words in said, said


WITHOUT_HOROVOD = """
import sys
sys.modules["horovod"] = None
import keras
for file in sys.argv[1:]:
    model = keras.models.load_model(file)
    kind = type(model.optimizer)
    print(kind.__name__, kind.__module__, int(model.optimizer.iterations))
    model.fit(keras.ops.ones((4, 5)), keras.ops.ones((4, 1)), verbose=0)
"""


@form
def loss_scale():
    """One rank's gradient overflows: no rank takes that step, and none waits."""
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    try:
        for wrapped in ("by compile", "inside", "outside"):
            model = model_of(keras)
            optimizer = sgd(keras, clipnorm=1.0)
            if wrapped == "inside":
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            optimizer = by_tf.DistributedOptimizer(optimizer)
            if wrapped == "outside":
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            model.compile(optimizer, "mse")
            assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
            x, y = data(RANK)
            x = np.array(x)
            if RANK == SIZE - 1:
                x[2 * BATCH] = np.inf
            before = weights(model)
            model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
            equal(model, name=wrapped)
            assert not np.array_equal(before, weights(model))
            scale = model.optimizer.dynamic_scale.numpy()
            steps = int(model.optimizer.iterations.numpy())
            said = hvd.allgather_object((float(scale), steps))
            assert said == [said[0]] * SIZE, said
            assert 0 < steps < STEPS, said
            assert scale < 2.0**15, said
    finally:
        keras.mixed_precision.set_dtype_policy("float32")


@form
def xla():
    """What Keras takes for a GPU: "auto" means no XLA, and True is refused by name."""
    listed = tf.config.list_physical_devices
    tf.config.list_physical_devices = lambda *_: [*listed(), SimpleNamespace(device_type="GPU")]
    try:
        plain = model_of(keras)
        plain.compile(sgd(keras), "mse")
        assert plain.jit_compile is True  # so Keras is fooled
        expected = once("without XLA", lambda: reference_of_compiled(plain))
        model = model_of(keras)
        model.compile(by_tf.DistributedOptimizer(sgd(keras)), "mse")
        equal(fit(model, RANK), expected)
        for words in ({"jit_compile": True}, {"jit_compile": True, "auto_scale_loss": False}):
            optimizer = by_tf.DistributedOptimizer(sgd(keras))
            refuses("compile(jit_compile=True): XLA cannot", model.compile, optimizer, **words)
        refuses("compile(jit_compile=True): XLA cannot", setattr, model, "jit_compile", True)
        compiled = tf.function(model.train_step, jit_compile=True)
        batch = (tf.constant(X[0, RANK]), tf.constant(Y[0, RANK]))
        refuses("set jit_compile=False", compiled, batch)
    finally:
        tf.config.list_physical_devices = listed


def reference_of_compiled(model):
    model.jit_compile = False
    return weights(fit(model, None))


@form
def saved():
    """A model is saved by rank 0, loads without Horovod, and goes on where it was with it."""
    # In the run's folder, which the nodes share.
    made = tempfile.mkdtemp(dir=os.environ["OUTPUT_DIR"]) if RANK == 0 else None
    folder = Path(hvd.broadcast_object(made))
    modules = {str(folder / f"{module.__name__}.keras"): module for module in (by_keras, by_tf)}
    x, y = data(RANK)
    half = STEPS // 2 * BATCH
    for file, module in modules.items():
        model = model_of(keras)
        model.compile(module.DistributedOptimizer(sgd(keras)), "mse")
        model.fit(x[:half], y[:half], batch_size=BATCH, shuffle=False, verbose=0)
        if RANK == 0:
            model.save(file)
    if RANK == 0:
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_HOROVOD, *modules], capture_output=True, text=True
        )
        assert done.stdout.count(f"SGD keras.src.optimizers.sgd {STEPS // 2}") == 2, done
    hvd.allgather_object("saved")
    for file, module in modules.items():
        loaded = module.load_model(file)
        loaded.fit(x[half:], y[half:], batch_size=BATCH, shuffle=False, verbose=0)
        equal(loaded, reference(keras), module.__name__)
        if RANK == 0:
            loaded.save(file)


@form
def custom_optimizer():
    """An optimizer of the script's own is saved under the name that it registered."""

    @keras.saving.register_keras_serializable(package="mine")
    class Own(keras.optimizers.SGD):
        pass

    model = model_of(keras)
    model.compile(by_tf.DistributedOptimizer(Own(0.1)), "mse")
    equal(fit(model, RANK))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/own.keras")
        assert type(keras.models.load_model(f"{folder}/own.keras").optimizer) is Own


@form
def callbacks():
    """Rates that are warmed up and fall, metrics that are those of all ranks, and JSON takes."""
    for module in (by_keras, by_tf):
        model = model_of(keras)
        optimizer = keras.optimizers.SGD(0.1 * SIZE, momentum=0.9)
        model.compile(module.DistributedOptimizer(optimizer), "mse")
        calls = [
            module.callbacks.BroadcastGlobalVariablesCallback(0),
            module.callbacks.MetricAverageCallback(),
            module.callbacks.LearningRateWarmupCallback(0.1 * SIZE, warmup_epochs=2),
            module.callbacks.LearningRateScheduleCallback(0.1 * SIZE, 0.5, start_epoch=2),
        ]
        x, y = data(RANK)
        history = model.fit(x, y, batch_size=BATCH, epochs=4, verbose=0, callbacks=calls).history
        equal(model)
        rates = np.array(history["lr"])
        assert np.allclose(rates, [rates[0], 0.1 * SIZE, 0.1 * SIZE, 0.05 * SIZE]), rates
        assert 0.1 < rates[0] < 0.1 * SIZE
        assert json.dumps(history)
        assert len(set(hvd.allgather_object(tuple(history["loss"])))) == 1


@form
def sparse_and_groups():
    """Gradients that are sparse, compressed, grouped by number and by variables."""
    numbers = (np.abs(X[..., 0]) * 3).astype("int32") % 7

    def built(seed=3):
        keras.utils.set_random_seed(seed)
        return keras.Sequential(
            [keras.Input(()), keras.layers.Embedding(7, 3), keras.layers.Dense(1)]
        )

    def trained(optimizer, rank, model):
        model.compile(optimizer, "mse")
        mine = slice(None) if rank is None else slice(rank, rank + 1)
        size = BATCH * (SIZE if rank is None else 1)
        x, y = numbers[:, mine].reshape(-1), Y[:, mine].reshape(-1, 1)
        model.fit(x, y, batch_size=size, shuffle=False, verbose=0)
        return model

    expected = once("sparse", lambda: weights(trained(sgd(keras), None, built())))
    for options in ({}, {"sparse_as_dense": True}, {"compression": hvd.Compression.fp16}):
        model = trained(by_tf.DistributedOptimizer(sgd(keras), **options), RANK, built())
        equal(model, None if "compression" in options else expected, options)
    expected = reference(keras)
    for groups in (lambda _: 2, lambda model: [model.trainable_variables[1:4]]):
        model = model_of(keras)
        groups = groups(model)
        model.compile(by_tf.DistributedOptimizer(sgd(keras), groups=groups), "mse")
        equal(fit(model, RANK), expected, groups)


@form
def local_layers():
    """A layer of one's own stays so, by the optimizer and by the tape."""
    model = model_of(keras)
    own = model.layers[-1]
    own.kernel.assign(own.kernel + RANK)
    optimizer = by_keras.PartialDistributedOptimizer(sgd(keras), local_layers=own)
    model.compile(optimizer, "mse")
    fit(model, RANK)
    shared, kernel = [
        np.concatenate([v.numpy().ravel() for v in part])
        for part in (model.trainable_variables[:-2], model.trainable_variables[-2:])
    ]
    every = hvd.allgather_object((shared, kernel))
    assert all(np.array_equal(shared, theirs) for theirs, _ in every)
    assert all(not np.array_equal(every[0][1], theirs) for _, theirs in every[1:])
    tape = hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=own)
    with tape:
        loss = tf.reduce_sum(model(tf.constant(X[0, RANK])))
    pairs, rest = tape.get_local_and_global_gradients(loss, model.trainable_variables)
    assert (len(pairs), len(rest)) == (2, 4)


@form
def two_optimizers():
    """Two models in one traced function, as GANs have them."""
    models = [model_of(keras, 3 + RANK), model_of(keras, 30 + RANK)]
    optimizers = [by_tf.DistributedOptimizer(sgd(keras)) for _ in models]

    @tf.function
    def step(x, y):
        for model, optimizer in zip(models, optimizers):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables))

    for x, y in zip(X, Y):
        step(tf.constant(x[RANK]), tf.constant(y[RANK]))
    for model in models:
        equal(model)


@form
def process_sets():
    """All ranks but the first train a model together, the first one of its own."""
    ranks = list(range(1, SIZE))
    members = hvd.add_process_set(ranks)
    model = model_of(keras, 3 + RANK)
    model.compile(by_tf.DistributedOptimizer(sgd(keras), process_set=members), "mse")
    every = hvd.allgather_object(weights(fit(model, RANK)))
    assert all(np.array_equal(every[1], every[rank]) for rank in ranks)
    assert not np.array_equal(every[0], every[1])


@form
def by_hand():
    """Weights broadcast by hand, of Keras' variables, and what Keras 2's loops call."""
    model = model_of(keras, 3 + RANK)
    model.add(keras.layers.Dropout(0.5))
    optimizer = by_tf.DistributedOptimizer(keras.optimizers.Adam(0.1))
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables(model.variables, root_rank=0)
    hvd.broadcast_variables(optimizer.variables(), root_rank=0)
    hvd.broadcast_variables(optimizer.variables, root_rank=0, inplace=True)
    model.compile(optimizer, "mse")
    equal(fit(model, RANK))


@form
def refused():
    words = "SGD(..., gradient_accumulation_steps=3)"
    refuses(words, by_tf.DistributedOptimizer, sgd(keras), backward_passes_per_step=3)


if __name__ == "__main__":
    main()
