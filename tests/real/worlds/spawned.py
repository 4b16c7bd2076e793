"""torch.multiprocessing.spawn as in PyTorch's tutorial; with `--all` in one world of all tasks."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(local, count):
    rank, size = local, count
    if "--all" in sys.argv:
        rank += int(os.environ["RANK"]) * count
        size *= int(os.environ["WORLD_SIZE"])
    else:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29555")
    dist.init_process_group("gloo", rank=rank, world_size=size)
    total = torch.ones(1)
    dist.all_reduce(total)
    print("ranks", size, "sum", int(total), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, (int(sys.argv[1]),), nprocs=int(sys.argv[1]))
