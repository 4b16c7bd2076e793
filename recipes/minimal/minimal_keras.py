"""Minimal: digits, Keras' fit with Horovod: runner launch --nodes 2 ./minimal_keras.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank in a step")
parser.add_argument("--base-lr", type=float, default=0.05, help="learning rate for one rank")
args = parser.parse_args()
out = Path(os.environ.get("OUTPUT_DIR", "."))  # set by runner

hvd.init()  # Horovod: find the other ranks.
if gpus := tf.config.list_physical_devices("GPU"):
    # Horovod: the ranks of a node take its GPUs in turn.
    tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")

# Data: 1,500 digits to train on, 297 to test with.
x, y = load_digits(return_X_y=True)
x = x / 16
# Horovod: each rank trains on its own share; all shares have one size.
mine = slice(hvd.rank(), 1500 // hvd.size() * hvd.size(), hvd.size())

dense = tf.keras.layers.Dense
model = tf.keras.Sequential([tf.keras.Input((64,)), dense(128, "relu"), dense(10)])
# Horovod: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = tf.keras.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# Horovod: its optimizer first averages the gradients over all ranks.
model.compile(hvd.DistributedOptimizer(optimizer), loss, metrics=["accuracy"])


class Metrics(tf.keras.callbacks.Callback):
    """Print and record each epoch, and save the weights: on rank 0."""

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.time()

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.time() - self.began
        loss, accuracy = logs["loss"], logs["val_accuracy"]
        print(f"epoch {epoch + 1}  loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
        self.line = {
            "event": "epoch",
            "epoch": epoch + 1,
            "step": (epoch + 1) * self.params["steps"],
            "loss": loss,
            "accuracy": accuracy,
            "seconds": seconds,
            "samples_per_s": len(x[mine]) * hvd.size() / seconds,
            "time": datetime.now(timezone.utc).isoformat(),
        }
        with (out / "metrics.jsonl").open("a") as file:  # for `runner list`, --follow and scale
            file.write(json.dumps(self.line) + "\n")
        self.model.save_weights(out / "part.weights.h5")
        (out / "part.weights.h5").replace(out / "checkpoint.weights.h5")  # whole


# Horovod: all ranks begin with the weights of rank 0; losses are means of all; one rank writes.
calls = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
metrics = Metrics()
if hvd.rank() == 0:
    calls.append(metrics)
model.fit(
    x[mine],
    y[mine],
    args.batch_size,
    args.epochs,
    verbose=0,
    callbacks=calls,
    validation_data=(x[1500:], y[1500:]),
)
if hvd.rank() == 0:
    result = {**metrics.line, "world_size": hvd.size(), "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
