"""As the tutorials' IMDB: Keras's reviews, padded, an embedding and its mean; EarlyStopping."""

import os

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow import keras

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")
words, length = 1000, 32
(x_train, y_train), (x_test, y_test) = keras.datasets.imdb.load_data(num_words=words)
x_train, x_test = (
    keras.preprocessing.sequence.pad_sequences(x, maxlen=length, padding="post")
    for x in (x_train, x_test)
)
share = slice(hvd.rank(), len(x_train) // hvd.size() * hvd.size(), hvd.size())
model = keras.Sequential(
    [
        keras.layers.Embedding(words, 16),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()))
model.compile(optimizer=optimizer, loss="binary_crossentropy", metrics=["accuracy"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    keras.callbacks.EarlyStopping("val_loss", patience=2),
]
model.fit(
    x_train[share],
    y_train[share],
    batch_size=8,
    epochs=2,
    validation_data=(x_test, y_test),
    callbacks=callbacks,
    verbose=hvd.rank() == 0,
)
if hvd.rank() == 0:
    model.save(os.path.join(os.environ["OUTPUT_DIR"], "imdb.keras"))
    print("trained by", hvd.size(), "on", len(x_train), "reviews", flush=True)
