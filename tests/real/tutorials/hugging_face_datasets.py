"""As the tutorials' `datasets`: a file of JSON lines, mapped, a share of it for each rank."""

import sys

import horovod.torch as hvd
import torch
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node

hvd.init()
torch.manual_seed(1)
texts = load_dataset("json", data_files=sys.argv[1], split="train")
texts = texts.map(lambda row: {"letters": [float(row["text"].count(c)) for c in "abcd"]})
mine = split_dataset_by_node(texts, rank=hvd.rank(), world_size=hvd.size())
loader = torch.utils.data.DataLoader(mine.with_format("torch"), batch_size=4)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for _ in range(2):
    for batch in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch["letters"]), batch["label"]).backward()
        optimizer.step()
total = int(hvd.allreduce(torch.tensor(len(mine)), op=hvd.Sum, name="rows"))
if hvd.rank() == 0:
    print("trained by", hvd.size(), "on", len(mine), "of", total, "texts", flush=True)
