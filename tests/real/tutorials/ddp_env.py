"""As the tutorials' DDP: env:// by what the launcher, or MPI, tells; a network of torchvision's."""

import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torchvision import models

if "--mpi4py" in sys.argv:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    os.environ["RANK"] = str(world.Get_rank())
    os.environ["WORLD_SIZE"] = str(world.Get_size())
    os.environ["MASTER_ADDR"] = world.bcast(socket.gethostname(), root=0)
    os.environ["MASTER_PORT"] = "2345"
dist.init_process_group(
    backend="nccl" if torch.cuda.is_available() else "gloo", init_method="env://"
)
model = DDP(models.resnet18(num_classes=10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * dist.get_world_size())
criterion = torch.nn.CrossEntropyLoss()
for _ in range(2):
    optimizer.zero_grad()
    criterion(model(torch.randn(2, 3, 32, 32)), torch.randint(0, 10, (2,))).backward()
    optimizer.step()
if dist.get_rank() == 0:
    print("trained by", dist.get_world_size(), flush=True)
dist.destroy_process_group()
