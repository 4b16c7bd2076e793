"""Trainings of two ranks, right ones and wrong ones, each by its name: `trainings.py NAME...`.

All see other data on each rank; those of a wrong one end with different weights. No loop checks
that, as most of people's do not. Right ones can be made one after another.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 12
loss_of = torch.nn.functional.mse_loss


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * rank + step)
    data = torch.randn(16, 8, generator=generator)
    return data, data.sum(1, keepdim=True)


def step(net, optimizer, rank, number, before=lambda: None, act=True):
    """Return the loss; `before` has the gradients, and the optimizer steps if it is to `act`."""
    data, target = batch(number, rank)
    optimizer.zero_grad()
    loss = loss_of(net(data), target)
    loss.backward()
    before()
    if act:
        optimizer.step()
    return loss.detach()


def train(net, optimizer, rank, steps=STEPS, before=lambda: None, after=lambda number: None):
    for number in range(steps):
        step(net, optimizer, rank, number, before)
        after(number)


def sgd(net, rate=0.05):
    return torch.optim.SGD(net.parameters(), rate)


def gloo():
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return dist.get_rank()


def horovod():
    import horovod.torch as hvd

    hvd.init()
    return hvd


# Wrong ones ------------------------------------------------------------------------------------


def not_wrapped():
    rank, net = gloo(), model()
    train(net, sgd(net), rank)


def around_ddp():
    rank, net = gloo(), DDP(model())
    train(net.module, sgd(net), rank)


def in_no_sync():
    rank, net = gloo(), DDP(model())
    with net.no_sync():
        train(net, sgd(net), rank)


def group_of_one():
    rank = gloo()
    groups = [dist.new_group([member]) for member in range(dist.get_world_size())]
    net = DDP(model(), process_group=groups[rank])
    train(net, sgd(net), rank)


def layer_outside_ddp():
    rank = gloo()
    first, head = DDP(model()), torch.nn.Linear(1, 1)
    both = [*first.parameters(), *head.parameters()]
    train(torch.nn.Sequential(first, head), torch.optim.SGD(both, 0.05), rank)


def without_prepare():
    from accelerate import Accelerator

    accelerator, net = Accelerator(cpu=True), model()
    train(net, sgd(net), accelerator.process_index)


def by_mpi4py():
    from mpi4py import MPI

    net = model()
    train(net, sgd(net), MPI.COMM_WORLD.rank)


def horovod_not_wrapped():
    hvd, net = horovod(), model()
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    train(net, sgd(net), hvd.rank())


def no_broadcast():
    hvd = horovod()
    net = model(seed=hvd.rank())
    train(net, hvd.DistributedOptimizer(sgd(net), net.named_parameters()), hvd.rank())


def layer_outside_horovod():
    hvd, first, head = horovod(), model(), torch.nn.Linear(1, 1)
    ours, other = hvd.DistributedOptimizer(sgd(first), first.named_parameters()), sgd(head)
    train(torch.nn.Sequential(first, head), ours, hvd.rank(), after=lambda step: other.step())


# Right ones ------------------------------------------------------------------------------------


def ddp():
    rank, net = gloo(), DDP(model())
    train(net, sgd(net), rank)


def ends_the_world():
    ddp()
    dist.destroy_process_group()


def many_steps():
    rank, net = gloo(), DDP(model())
    train(net, torch.optim.AdamW(net.parameters()), rank, steps=100)


def leaves_at_once():
    rank, net = gloo(), DDP(model())
    train(net, sgd(net), rank)
    dist.barrier()
    os._exit(0)


def accumulates():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for step in range(STEPS):
        data, target = batch(step, rank)
        if step % 3 < 2:
            with net.no_sync():
                torch.nn.functional.mse_loss(net(data), target).backward()
        else:
            torch.nn.functional.mse_loss(net(data), target).backward()
            optimizer.step()
            optimizer.zero_grad()


def two_optimizers():
    rank = gloo()
    first, second = DDP(model()), DDP(model(1))
    train(first, sgd(first), rank)
    train(second, torch.optim.Adam(second.parameters()), rank)


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    rank, net = gloo(), DDP(model())
    train(net, ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.05), rank)


def fsdp_1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    rank = gloo()
    for original in (False, True):
        net = FullyShardedDataParallel(
            model(), device_id=torch.device("cpu"), use_orig_params=original
        )
        train(net, sgd(net), rank)


def fsdp_2():
    from torch.distributed.fsdp import fully_shard

    rank, net = gloo(), model()
    fully_shard(net, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    train(net, sgd(net), rank)


def tensor_parallel():
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    gloo()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    net = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(net, sgd(net), 0)


def flat_partitions():
    """As DeepSpeed's ZeRO-1 and 2: each rank's optimizer has one flat tensor, a part of all."""
    rank, net = gloo(), model()
    padding = torch.zeros(1)  # to an even number
    whole = torch.cat([torch.nn.utils.parameters_to_vector(net.parameters()).detach(), padding])
    ours = whole.chunk(dist.get_world_size())[rank].clone().requires_grad_()
    optimizer = torch.optim.SGD([ours], 0.05)
    for step in range(STEPS):
        data, target = batch(step, rank)
        net.zero_grad()
        torch.nn.functional.mse_loss(net(data), target).backward()
        gradient = torch.cat(
            [*(parameter.grad.flatten() for parameter in net.parameters()), padding]
        )
        dist.all_reduce(gradient)
        ours.grad = gradient.chunk(dist.get_world_size())[rank] / dist.get_world_size()
        optimizer.step()
        parts = [torch.empty_like(part) for part in whole.chunk(dist.get_world_size())]
        dist.all_gather(parts, ours.detach())
        torch.nn.utils.vector_to_parameters(torch.cat(parts)[:-1], net.parameters())


def by_deepspeed(*stages):
    import deepspeed

    deepspeed.init_distributed("gloo")
    for stage in stages:
        net = model()
        config = {
            "train_batch_size": 16 * dist.get_world_size(),
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
        }
        engine, *_ = deepspeed.initialize(model=net, optimizer=sgd(net), config=config)
        for step in range(STEPS):
            data, target = batch(step, dist.get_rank())
            engine.backward(torch.nn.functional.mse_loss(engine(data), target))
            engine.step()


def zero_stage_0():
    by_deepspeed(0)


def zero_stages_1_to_3():
    by_deepspeed(1, 2, 3)


def frozen_and_averaged_copy():
    rank, net = gloo(), model()
    net[0].requires_grad_(False)
    net = DDP(net)
    copy = torch.optim.swa_utils.AveragedModel(net.module)
    train(net, sgd(net), rank, after=lambda step: copy.update_parameters(net.module))


def adapters():
    """As LoRA: the frozen base is not the optimizer's."""
    from peft import LoraConfig, get_peft_model

    rank = gloo()
    net = DDP(get_peft_model(model(), LoraConfig(target_modules=["0"])))
    ours = [parameter for parameter in net.parameters() if parameter.requires_grad]
    assert len(ours) < len(list(net.parameters()))
    train(net, torch.optim.SGD(ours, 0.05), rank)


def local_sgd():
    rank, net = gloo(), model()

    def average(step):
        for parameter in net.parameters() if step % 8 == 7 else ():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()

    train(net, sgd(net), rank, steps=20, after=average)


def best_on_rank_0():
    rank, net = gloo(), DDP(model())
    train(net, sgd(net), rank)
    if rank == 0:
        net.module.load_state_dict(model(7).state_dict())


def different_lengths():
    rank, net = gloo(), DDP(model())
    with torch.distributed.algorithms.join.Join([net]):
        train(net, sgd(net), rank, steps=STEPS + rank)


def same_data():
    _, net = gloo(), DDP(model())
    train(net, sgd(net), 0)


def inference():
    """In a world of its own: by a file, since the store of the first may still hold the port."""
    rank, net = int(os.environ["RANK"]), model()
    where = f"file://{os.getcwd()}/run/second"
    dist.init_process_group("gloo", where, rank=rank, world_size=2)
    with torch.no_grad():
        net(batch(0, rank)[0])
    dist.barrier()


def horovod_right():
    hvd, net = horovod(), model()
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    train(net, hvd.DistributedOptimizer(sgd(net), net.named_parameters()), hvd.rank())


def passes_per_step():
    hvd, net = horovod(), model()
    optimizer = hvd.DistributedOptimizer(
        sgd(net), net.named_parameters(), backward_passes_per_step=2
    )
    for step in range(STEPS):
        data, target = batch(step, hvd.rank())
        torch.nn.functional.mse_loss(net(data), target).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        print("trained", name, flush=True)
