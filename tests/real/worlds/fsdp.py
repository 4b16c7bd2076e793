"""FSDP: each rank has its part of the weights."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
model(torch.ones(4, 8)).square().mean().backward()
total = torch.ones(1)
dist.all_reduce(total)
print("ranks", dist.get_world_size(), "sum", int(total), flush=True)
dist.destroy_process_group()
