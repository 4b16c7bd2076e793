"""Minimal: handwritten digits, PyTorch's own DDP: runner launch --nodes 2 ./minimal_ddp.py"""

import argparse
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

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
rank, size = distributed.get_rank(), distributed.get_world_size()
device = torch.device("cpu")
if torch.cuda.is_available():  # DDP: the ranks of a node take its GPUs in turn.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())

# Data: 1,500 digits to train on, 297 to test with. On the device once.
digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32, device=device).flatten(1)
y = torch.tensor(digits.target, device=device)
mine = torch.arange(1500)[rank::size][: 1500 // size]  # DDP: each rank has a share, of one size.

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
# DDP: all ranks begin with the weights of rank 0; backward() averages the gradients over all.
model = DistributedDataParallel(net)
# DDP: a step has the samples of all ranks, so the learning rate grows with their number.
optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * size, momentum=0.9)

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
        accuracy = (net(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    loss = loss.detach()
    distributed.all_reduce(loss)  # DDP: the sum of all ranks, in place.
    seconds = time.time() - began
    if rank == 0:  # DDP: one rank prints and writes.
        print(f"epoch {epoch}  loss {loss.item() / size:.4f}  accuracy {accuracy:.4f}", flush=True)
        line = {
            "event": "epoch",
            "epoch": epoch,
            "step": step,
            "loss": loss.item() / size,
            "accuracy": accuracy,
            "seconds": seconds,
            "samples_per_s": len(mine) * size / seconds,
            "time": datetime.now(timezone.utc).isoformat(),
        }
        with (out / "metrics.jsonl").open("a") as file:  # for `runner list`, --follow and scale
            file.write(json.dumps(line) + "\n")
        checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(checkpoint, out / "checkpoint.pt.part")
        (out / "checkpoint.pt.part").replace(out / "checkpoint.pt")  # whole, or the one before

if rank == 0:
    result = {**line, "world_size": size, "arguments": vars(args)}
    (out / "result.json").write_text(json.dumps(result))  # for `runner result`, compare and scale
distributed.destroy_process_group()
