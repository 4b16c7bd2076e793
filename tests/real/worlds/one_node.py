"""MirroredStrategy, which uses the devices of one node."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
print("replicas", strategy.num_replicas_in_sync)
