"""As the tutorials' cats and dogs: ImageFolder of training_set and test_set, a small ResNet."""

import os
import sys

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms

hvd.init()
torch.manual_seed(42)
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
root = sys.argv[1]
train_transform = transforms.Compose(
    [
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ]
)
test_transform = transforms.Compose(
    [transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()]
)
train = datasets.ImageFolder(os.path.join(root, "training_set"), transform=train_transform)
test = datasets.ImageFolder(os.path.join(root, "test_set"), transform=test_transform)
sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(train, batch_size=4, sampler=sampler, num_workers=1)
test_loader = DataLoader(test, batch_size=4)
model = models.resnet18(num_classes=len(train.classes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0125 * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
criterion = torch.nn.CrossEntropyLoss()
for epoch in range(2):
    model.train()
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in test_loader)
accuracy = hvd.allreduce(torch.tensor(right / len(test)), name="accuracy").item()
if hvd.rank() == 0:
    saved = os.path.join(os.environ["OUTPUT_DIR"], "checkpoint-2.pth.tar")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
    print("trained by", hvd.size(), "on", train.classes, "accuracy", accuracy, flush=True)
