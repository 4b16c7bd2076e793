"""The trainer of the matrix: each rank says where it stands in the world, and that it can sum."""

import socket

import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum)
print(
    f"world size={hvd.size()} rank={hvd.rank()} local={hvd.local_rank()}"
    f" host={socket.gethostname()} sum={int(total.item())}",
    flush=True,
)
hvd.shutdown()
