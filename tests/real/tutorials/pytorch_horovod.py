"""As the tutorials' MNIST in PyTorch: torchvision's dataset, its sampler, TensorBoard, a lock."""

import argparse
import os

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from filelock import FileLock
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, transforms


def dataset(folder, train):
    """Every rank asks for the download; the files are there, so nobody does it."""
    scale = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.13,), (0.31,))])
    with FileLock(os.path.join(os.environ["OUTPUT_DIR"], "download.lock")):
        return datasets.MNIST(folder, train=train, download=True, transform=scale)


def mean(value, name):
    """The mean of all ranks' numbers."""
    return hvd.allreduce(torch.tensor(float(value)), name=name).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--use-adasum", action="store_true")
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    train = dataset(args.data_dir, train=True)
    sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    workers = {"num_workers": 1, "multiprocessing_context": "forkserver"}
    loader = DataLoader(train, batch_size=32, sampler=sampler, **workers)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )
    writer = SummaryWriter(os.environ["OUTPUT_DIR"]) if hvd.rank() == 0 else None
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        average = mean(loss.item(), f"loss.{epoch}")
        if writer:
            writer.add_scalar("loss", average, epoch)
    if writer:
        writer.close()
        print("trained by", hvd.size(), flush=True)


if __name__ == "__main__":
    main()
