"""Minimal: handwritten digits, PyTorch's own DDP: runner launch --nodes 2 ./minimal_ddp.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

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

# DDP: runner launch and torchrun set this rank's place and where all meet; else it is alone.
alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
os.environ.update({**alone, "MASTER_PORT": "0", **os.environ})
distributed.init_process_group()
rank, size, gpus = distributed.get_rank(), distributed.get_world_size(), torch.cuda.device_count()
device = torch.device(f"cuda:{int(os.environ['LOCAL_RANK']) % gpus}" if gpus else "cpu")

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
