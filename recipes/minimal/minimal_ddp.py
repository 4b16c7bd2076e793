"""Minimal: handwritten digits, PyTorch's own DDP: runner launch --nodes 2 ./minimal_ddp.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank in a step")
parser.add_argument("--base-lr", type=float, default=0.05, help="learning rate for one rank")
args = parser.parse_args()
out = Path(os.environ.get("OUTPUT_DIR", ".")).resolve()  # set by runner, shared by the nodes

# Horovod: it knows the job's ranks; DDP: they meet in a file, and then do without it. Where a
# host's name leads to the loopback interface, GLOO_SOCKET_IFNAME names the one to the other nodes.
hvd.init()
rank, size, gpus = hvd.rank(), hvd.size(), torch.cuda.device_count()
device = torch.device("cuda", hvd.local_rank() % gpus) if gpus else torch.device("cpu")
meeting = hvd.broadcast_object(f"file://{out}/.ddp-{time.time_ns()}", root_rank=0)
distributed.init_process_group(None, meeting, rank=rank, world_size=size)
hvd.shutdown()

digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32, device=device).flatten(1)
y = torch.tensor(digits.target, device=device)
mine = torch.arange(1500)[rank::size][: 1500 // size]  # DDP: each rank has a share, of one size.
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
# DDP: all ranks begin with the weights of rank 0; backward() averages the gradients over all.
model = torch.nn.parallel.DistributedDataParallel(net.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * size, momentum=0.9)
for epoch in range(1, args.epochs + 1):
    began, batches = time.time(), mine[torch.randperm(len(mine))].split(args.batch_size)
    for batch in batches:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
    distributed.all_reduce(loss := loss.detach())  # DDP: the sum of all ranks, in place.
    seconds, now = time.time() - began, datetime.now(timezone.utc).isoformat()
    line = {"event": "epoch", "epoch": epoch, "step": epoch * len(batches), "time": now}
    line |= {"loss": loss.item() / size, "seconds": seconds}
    line |= {"samples_per_s": len(mine) * size / seconds}
    if rank == 0:  # DDP: one rank writes; `runner list`, --follow and scale read it.
        with (out / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
if rank == 0:
    accuracy = (net(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    result = {**line, "accuracy": accuracy, "world_size": size, "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
distributed.destroy_process_group()
