"""As the tutorials' Keras 2: compile's old option, Horovod's callbacks, an HDF5 file of rank 0."""

import os

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
draw = np.random.default_rng(hvd.rank())
images = draw.random((256, 28, 28, 1), dtype=np.float32)
labels = draw.integers(0, 10, 256)
data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(256).batch(32)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, [3, 3], activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
rate = 0.001 * hvd.size()
optimizer = hvd.DistributedOptimizer(
    tf.optimizers.Adam(rate), backward_passes_per_step=1, average_aggregated_gradients=True
)
model.compile(
    loss=tf.losses.SparseCategoricalCrossentropy(),
    optimizer=optimizer,
    metrics=["accuracy"],
    experimental_run_tf_function=False,
)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=1, verbose=1),
]
if hvd.rank() == 0:
    saved = os.path.join(os.environ["OUTPUT_DIR"], "checkpoint-{epoch}.h5")
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(saved))
model.fit(data, steps_per_epoch=4, epochs=2, callbacks=callbacks, verbose=hvd.rank() == 0)
if hvd.rank() == 0:
    print("trained by", hvd.size(), flush=True)
