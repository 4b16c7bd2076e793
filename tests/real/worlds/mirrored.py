"""MultiWorkerMirroredStrategy by TF_CONFIG, or with `--slurm` by its own resolver."""

import sys

import tensorflow as tf

resolver = None
if "--slurm" in sys.argv:
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=1, gpus_per_task=1, auto_set_gpu=False, port_base=18888
    )
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


@tf.function
def total():
    return strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)


print("ranks", strategy.num_replicas_in_sync, "sum", int(total()), flush=True)
