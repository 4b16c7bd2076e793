"""As the tutorials' cats and dogs in Keras: ImageDataGenerator, and a dataset of a directory."""

import os
import sys

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.preprocessing.image import ImageDataGenerator

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")
root, size, batch = sys.argv[1], (32, 32), 4
generator = ImageDataGenerator(
    rescale=1.0 / 255, shear_range=0.2, zoom_range=0.2, horizontal_flip=True
)
train = generator.flow_from_directory(
    os.path.join(root, "training_set"),
    target_size=size,
    batch_size=batch,
    class_mode="binary",
    seed=hvd.rank(),
)
test = tf.keras.utils.image_dataset_from_directory(
    os.path.join(root, "test_set"), image_size=size, batch_size=batch, label_mode="binary"
).map(lambda x, y: (x / 255, y))
model = tf.keras.Sequential(
    [
        layers.Input((*size, 3)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(1, activation="sigmoid"),
    ]
)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))
model.compile(loss="binary_crossentropy", optimizer=optimizer, metrics=["accuracy"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
]
if hvd.rank() == 0:
    saved = os.path.join(os.environ["OUTPUT_DIR"], "checkpoint-{epoch}.h5")
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(saved))
model.fit(
    train,
    steps_per_epoch=len(train) // hvd.size(),
    validation_data=test,
    epochs=2,
    callbacks=callbacks,
    verbose=hvd.rank() == 0,
)
if hvd.rank() == 0:
    print("trained by", hvd.size(), "on", train.class_indices, flush=True)
