"""Minimal: handwritten digits, PyTorch with Horovod: runner launch --nodes 2 ./minimal_torch.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank in a step")
parser.add_argument("--base-lr", type=float, default=0.05, help="learning rate for one rank")
args = parser.parse_args()
out = Path(os.environ.get("OUTPUT_DIR", "."))  # set by runner

hvd.init()  # Horovod: find the other ranks.
gpus = torch.cuda.device_count()
# Horovod: the ranks of a node take its GPUs in turn.
device = torch.device("cuda", hvd.local_rank() % gpus) if gpus else torch.device("cpu")
digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32, device=device).flatten(1)
y = torch.tensor(digits.target, device=device)
# Horovod: each rank learns from its own share; all shares have one size.
mine = torch.arange(1500)[hvd.rank() :: hvd.size()][: 1500 // hvd.size()]

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
model.to(device)
# Horovod: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * hvd.size(), momentum=0.9)
# Horovod: step() first averages the gradients over all ranks,
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # which begin with equal weights.

for epoch in range(1, args.epochs + 1):
    began, batches = time.time(), mine[torch.randperm(len(mine))].split(args.batch_size)
    for batch in batches:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
    loss = hvd.allreduce(loss.detach(), name="loss").item()  # Horovod: the mean of all ranks.
    seconds, now = time.time() - began, datetime.now(timezone.utc).isoformat()
    line = {"event": "epoch", "epoch": epoch, "step": epoch * len(batches), "loss": loss}
    line |= {"seconds": seconds, "samples_per_s": len(mine) * hvd.size() / seconds, "time": now}
    if hvd.rank() == 0:  # Horovod: one rank writes; `runner list`, --follow and scale read it.
        with (out / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
if hvd.rank() == 0:
    accuracy = (model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    result = {**line, "accuracy": accuracy, "world_size": hvd.size(), "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
hvd.shutdown()
