"""Minimal: digits, Keras' fit with Horovod: runner launch --nodes 2 ./minimal_keras.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

# Keras 2 (the package tf-keras): with Keras 3 Horovod's optimizer exchanges nothing, silently.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
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
gpus = tf.config.list_physical_devices("GPU")  # Horovod: the ranks of a node take them in turn.
tf.config.set_visible_devices(gpus and gpus[hvd.local_rank() % len(gpus)], "GPU")
x, y = load_digits(return_X_y=True)
# Horovod: each rank learns from its own share; all shares have one size.
mine = slice(hvd.rank(), 1500 // hvd.size() * hvd.size(), hvd.size())
dense = tf.keras.layers.Dense
model = tf.keras.Sequential([tf.keras.Input((64,)), dense(128, "relu"), dense(10)])
# Horovod: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = tf.keras.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# Horovod: its optimizer first averages the gradients over all ranks.
model.compile(hvd.DistributedOptimizer(optimizer), loss, ["accuracy"])


class Metrics(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.time()

    def on_epoch_end(self, epoch, logs=None):
        seconds, step = time.time() - self.began, (epoch + 1) * self.params["steps"]
        loss = float(logs["loss"])  # MetricAverageCallback leaves numpy's kind, which JSON lacks
        self.line = {"event": "epoch", "epoch": epoch + 1, "step": step, "loss": loss}
        self.line |= {"seconds": seconds, "time": datetime.now(timezone.utc).isoformat()}
        self.line |= {"samples_per_s": len(x[mine]) * hvd.size() / seconds}
        with (out / "metrics.jsonl").open("a") as file:  # for `runner list`, --follow and scale
            file.write(json.dumps(self.line) + "\n")


# Horovod: all ranks begin with the weights of rank 0; losses are means of all; one rank writes.
calls = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
calls += [Metrics()] if hvd.rank() == 0 else []
model.fit(x[mine] / 16, y[mine], args.batch_size, args.epochs, verbose=0, callbacks=calls)
if hvd.rank() == 0:
    accuracy = model.evaluate(x[1500:] / 16, y[1500:], verbose=0)[1]
    result = {**calls[-1].line, "accuracy": accuracy, "world_size": hvd.size()}
    (out / "result.json").write_text(json.dumps({**result, "arguments": vars(args)}))
