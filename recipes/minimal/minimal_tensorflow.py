"""Minimal: digits, TensorFlow with Horovod: runner launch --nodes 2 ./minimal_tensorflow.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import horovod.tensorflow as hvd
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
x = (x / 16).astype("float32")
# Horovod: each rank trains on its own share; all shares have one size.
mine = slice(hvd.rank(), 1500 // hvd.size() * hvd.size(), hvd.size())
data = tf.data.Dataset.from_tensor_slices((x[mine], y[mine])).shuffle(1500)
data = data.batch(args.batch_size).prefetch(tf.data.AUTOTUNE)

dense = tf.keras.layers.Dense
model = tf.keras.Sequential([tf.keras.Input((64,)), dense(128, "relu"), dense(10)])
# Horovod: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = tf.keras.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)
# Horovod: all ranks begin with the weights of rank 0. Keras 3 wraps variables: v.value is TF's.
hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    tape = hvd.DistributedGradientTape(tape)  # Horovod: averages the gradients over all ranks.
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


step = 0
for epoch in range(1, args.epochs + 1):
    began = time.time()
    for images, labels in data:
        loss = train_step(images, labels)
        step += 1
    loss = float(hvd.allreduce(loss, name="loss"))  # Horovod: the mean of all ranks.
    logits = model(x[1500:], training=False).numpy()
    accuracy = float((logits.argmax(1) == y[1500:]).mean())
    seconds = time.time() - began
    if hvd.rank() == 0:  # Horovod: one rank prints and writes.
        print(f"epoch {epoch}  loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
        line = {
            "event": "epoch",
            "epoch": epoch,
            "step": step,
            "loss": loss,
            "accuracy": accuracy,
            "seconds": seconds,
            "samples_per_s": len(x[mine]) * hvd.size() / seconds,
            "time": datetime.now(timezone.utc).isoformat(),
        }
        with (out / "metrics.jsonl").open("a") as file:  # for `runner list`, --follow and scale
            file.write(json.dumps(line) + "\n")
        model.save_weights(out / "part.weights.h5")
        (out / "part.weights.h5").replace(out / "checkpoint.weights.h5")  # whole

if hvd.rank() == 0:
    result = {**line, "world_size": hvd.size(), "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
hvd.shutdown()
