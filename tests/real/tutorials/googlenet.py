"""As the tutorials' GoogLeNet: torchvision's, with the losses of its two auxiliary classifiers."""

import os

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torchvision import models

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
torch.manual_seed(dist.get_rank())
model = models.googlenet(num_classes=10, aux_logits=True, init_weights=False)
if torch.cuda.is_available():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model.cuda()
device = next(model.parameters()).device
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * dist.get_world_size(), momentum=0.9)
model.train()
for _ in range(2):
    images = torch.randn(2, 3, 64, 64, device=device)
    labels = torch.randint(0, 10, (2,), device=device)
    optimizer.zero_grad()
    out = model(images)
    auxiliary = cross_entropy(out.aux_logits1, labels) + cross_entropy(out.aux_logits2, labels)
    loss = cross_entropy(out.logits, labels) + 0.3 * auxiliary
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print("trained by", dist.get_world_size(), "loss", loss.item(), flush=True)
dist.destroy_process_group()
