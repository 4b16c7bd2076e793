"""As the tutorials' VGG: torchvision's, of which only a new last layer learns cats and dogs."""

import os
import sys

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms

hvd.init()
torch.manual_seed(42)
device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else "cpu"
transform = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])
train = datasets.ImageFolder(os.path.join(sys.argv[1], "training_set"), transform=transform)
sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(train, batch_size=4, sampler=sampler)
model = models.vgg16()  # the tutorials' has learned weights, which are a download
for parameter in model.parameters():
    parameter.requires_grad = False
model.classifier[6] = torch.nn.Linear(model.classifier[6].in_features, len(train.classes))
model.to(device)
optimizer = torch.optim.SGD(model.classifier[6].parameters(), lr=0.001 * hvd.size(), momentum=0.9)
named = [
    (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad
]
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
criterion = torch.nn.CrossEntropyLoss()
for epoch in range(2):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
if hvd.rank() == 0:
    torch.save(model.classifier[6].state_dict(), os.path.join(os.environ["OUTPUT_DIR"], "head.pt"))
    print("trained by", hvd.size(), "on", train.classes, flush=True)
