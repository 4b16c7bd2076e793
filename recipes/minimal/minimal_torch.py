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
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank in a step")
parser.add_argument("--base-lr", type=float, default=0.05, help="learning rate for one rank")
args = parser.parse_args()
out = Path(os.environ.get("OUTPUT_DIR", "."))  # set by runner

hvd.init()  # Horovod: find the other ranks.
device = torch.device("cpu")
if torch.cuda.is_available():  # Horovod: the ranks of a node take its GPUs in turn.
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())

# Data: 1,500 digits to train on, 297 to test with. On the device once.
digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32, device=device).flatten(1)
y = torch.tensor(digits.target, device=device)
# Horovod: each rank trains on its own share; all shares have one size.
mine = torch.arange(1500)[hvd.rank() :: hvd.size()][: 1500 // hvd.size()]

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
# Horovod: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * hvd.size(), momentum=0.9)
# Horovod: step() first averages the gradients over all ranks,
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # which begin with equal weights.

step = 0
for epoch in range(1, args.epochs + 1):
    began = time.time()
    model.train()
    for batch in mine[torch.randperm(len(mine))].split(args.batch_size):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        step += 1

    model.eval()
    with torch.inference_mode():
        accuracy = (model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    loss = hvd.allreduce(loss.detach(), name="loss").item()  # Horovod: the mean of all ranks.
    seconds = time.time() - began
    if hvd.rank() == 0:  # Horovod: one rank prints and writes.
        print(f"epoch {epoch}  loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
        line = {
            "event": "epoch",
            "epoch": epoch,
            "step": step,
            "loss": loss,
            "accuracy": accuracy,
            "seconds": seconds,
            "samples_per_s": len(mine) * hvd.size() / seconds,
            "time": datetime.now(timezone.utc).isoformat(),
        }
        with (out / "metrics.jsonl").open("a") as file:  # for `runner list`, --follow and scale
            file.write(json.dumps(line) + "\n")
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(checkpoint, out / "checkpoint.pt.part")
        (out / "checkpoint.pt.part").replace(out / "checkpoint.pt")  # whole, or the one before

if hvd.rank() == 0:
    result = {**line, "world_size": hvd.size(), "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
hvd.shutdown()
