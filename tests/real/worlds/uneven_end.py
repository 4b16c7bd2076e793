"""MultiWorkerMirroredStrategy, whose second rank comes to its end later than the first."""

import atexit
import json
import os
import time

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
atexit.register(lambda: print(f"process {rank} left at {time.time()}", flush=True))
print("ranks", strategy.num_replicas_in_sync, flush=True)
time.sleep(5 * rank)
print(f"script {rank} ended at {time.time()}", flush=True)
