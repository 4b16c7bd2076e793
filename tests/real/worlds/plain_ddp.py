"""PyTorch's DDP, as its tutorial has it: env:// and nothing else."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.ones(8, 4)).square().mean().backward()
total = torch.ones(1)
dist.all_reduce(total)
print("ranks", dist.get_world_size(), "sum", int(total), flush=True)
del model  # what it holds of the group can outlive it else: seen once, on a loaded machine
dist.destroy_process_group()
