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
gpus = tf.config.list_physical_devices("GPU")  # Horovod: the ranks of a node take them in turn.
tf.config.set_visible_devices(gpus and gpus[hvd.local_rank() % len(gpus)], "GPU")
x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
# Horovod: each rank learns from its own share; all shares have one size.
mine = slice(hvd.rank(), 1500 // hvd.size() * hvd.size(), hvd.size())
data = tf.data.Dataset.from_tensor_slices((x[mine], y[mine])).shuffle(1500).batch(args.batch_size)
dense = tf.keras.layers.Dense
model = tf.keras.Sequential([tf.keras.Input((64,)), dense(128, "relu"), dense(10)])
# Horovod: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = tf.keras.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)
# Horovod: all ranks begin with the weights of rank 0. Keras 3 wraps variables: v.value is TF's.
hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
        loss = tf.reduce_mean(losses)
    tape = hvd.DistributedGradientTape(tape)  # Horovod: averages the gradients over all ranks.
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(1, args.epochs + 1):
    began, losses = time.time(), [step(*batch) for batch in data]
    loss = float(hvd.allreduce(losses[-1], name="loss"))  # Horovod: the mean of all ranks.
    seconds, now = time.time() - began, datetime.now(timezone.utc).isoformat()
    line = {"event": "epoch", "epoch": epoch, "step": epoch * len(losses), "loss": loss}
    line |= {"seconds": seconds, "samples_per_s": len(x[mine]) * hvd.size() / seconds, "time": now}
    if hvd.rank() == 0:  # Horovod: one rank writes; `runner list`, --follow and scale read it.
        with (out / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
if hvd.rank() == 0:
    accuracy = float((model(x[1500:]).numpy().argmax(1) == y[1500:]).mean())
    result = {**line, "accuracy": accuracy, "world_size": hvd.size(), "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
