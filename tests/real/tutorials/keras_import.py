"""As the tutorials' `import keras`: horovod.keras, old names of layers, an HDF5 file of rank 0."""

import math
import os

import horovod.keras as hvd
import keras
import numpy as np
from keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from keras.models import Sequential

hvd.init()
epochs = math.ceil(4.0 / hvd.size())
draw = np.random.default_rng(hvd.rank())
x_train = draw.random((128, 28, 28, 1)).astype("float32")
y_train = keras.utils.to_categorical(draw.integers(0, 10, 128), 10)
model = Sequential()
model.add(Conv2D(4, kernel_size=(3, 3), activation="relu", input_shape=(28, 28, 1)))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.25))
model.add(Flatten())
model.add(Dense(10, activation="softmax"))
opt = hvd.DistributedOptimizer(keras.optimizers.Adadelta(1.0 * hvd.size()))
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=opt, metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
if hvd.rank() == 0:
    saved = os.path.join(os.environ["OUTPUT_DIR"], "checkpoint-{epoch}.h5")
    callbacks.append(keras.callbacks.ModelCheckpoint(saved))
model.fit(
    x_train,
    y_train,
    batch_size=32,
    callbacks=callbacks,
    epochs=epochs,
    verbose=1 if hvd.rank() == 0 else 0,
)
score = model.evaluate(x_train, y_train, verbose=0)
if hvd.rank() == 0:
    print("trained by", hvd.size(), "loss", score[0], flush=True)
