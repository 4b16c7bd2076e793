"""Trainings of two ranks that are hard to judge, by their names: `judged.py NAME...`.

Wrong ones end with different weights, or with copies of one training; right ones are as their
authors want them. Each rank has data of its own, where the name does not say otherwise.
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from trainings import batch, gloo, horovod, loss_of, model, sgd, step, train

torch.set_num_threads(1)


def ranks():
    return dist.get_world_size()


def average(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor /= ranks()


def average_weights(net):
    average([parameter.data for parameter in net.parameters()])


def average_gradients(net):
    average([parameter.grad for parameter in net.parameters()])


def alone(net, rank, steps, optimizer=None):
    """Train without the others."""
    train(net, optimizer or sgd(net, 0.01), rank, steps=steps)


# Wrong: nothing averages, though the ranks talk to each other -----------------------------------


def metric_reduced():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        dist.all_reduce(step(net, optimizer, rank, number))


def barrier_then_100_steps():
    rank, net = gloo(), model()
    dist.barrier()
    train(net, sgd(net), rank, steps=100)


def validated_every_20_steps():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(100):
        loss = step(net, optimizer, rank, number)
        if number % 20 == 19:
            dist.all_reduce(loss)


def loss_averaged_before_backward():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        data, target = batch(number, rank)
        loss = loss_of(net(data), target)
        with torch.no_grad():
            dist.all_reduce(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def other_numbers_of_batches():
    rank, net = gloo(), model()
    train(net, sgd(net), rank, steps=40 - 3 * rank)


def metric_sent():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        loss = step(net, optimizer, rank, number)
        dist.send(loss, 0) if rank else dist.recv(torch.zeros(()), 1)


def metrics_sent():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        metrics = step(net, optimizer, rank, number).repeat(3)
        work = dist.isend(metrics, 0) if rank else dist.irecv(torch.zeros(3), 1)
        work.wait()


def counts_to_all():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        step(net, optimizer, rank, number)
        counts = torch.ones(ranks(), dtype=torch.int64)
        dist.all_to_all_single(torch.zeros_like(counts), counts)


def broadcast_every_8_steps():
    rank, net = gloo(), model()

    def hand_on(number):
        for parameter in net.parameters() if number % 8 == 7 else ():
            dist.broadcast(parameter.data, 0)

    train(net, sgd(net), rank, steps=44, after=hand_on)


def broadcast_and_metric():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(44):
        dist.all_reduce(step(net, optimizer, rank, number))
        for parameter in net.parameters() if number % 8 == 7 else ():
            dist.broadcast(parameter.data, 0)


def broadcast_every_step():
    rank, net = gloo(), model()
    train(
        net, sgd(net), rank, steps=40,
        after=lambda number: [dist.broadcast(parameter.data, 0) for parameter in net.parameters()],
    )  # fmt: skip


def averaged_after_the_step():
    rank, net = gloo(), model()
    train(net, sgd(net), rank, steps=40, after=lambda number: average_gradients(net))


def contrastive_not_wrapped():
    """Features of all ranks in the loss, and no wrapper."""
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        data, _ = batch(number, rank)
        features = net(data)
        every = [torch.zeros_like(features) for _ in range(ranks())]
        dist.all_gather(every, features.detach())
        every[rank] = features
        optimizer.zero_grad()
        (features - torch.cat(every).mean()).square().mean().backward()
        optimizer.step()


# Wrong: DDP averages, but not all, or not always -------------------------------------------------


def skips_bad_batches():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for number in range(160):
        step(net, optimizer, rank, number, act=not (rank and number in (100, 120)))


def skips_an_early_batch():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for number in range(40):
        step(net, optimizer, rank, number, act=not (rank and number == 10))


def many_optimizers():
    rank = gloo()
    for fold in range(20):
        net = DDP(model(fold))
        alone(net.module if fold > 16 else net, rank, 5)


def many_optimizers_with_schedulers():
    rank = gloo()
    for fold in range(20):
        net = DDP(model(fold))
        optimizer = sgd(net)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        train(
            net.module if fold > 16 else net, optimizer, rank, steps=5,
            after=lambda number, schedule=schedule: schedule.step(),
        )  # fmt: skip


def layer_added_late():
    rank, net = gloo(), DDP(model())
    optimizer, head = sgd(net), torch.nn.Linear(1, 1)
    for number in range(160):
        if number == 80:
            optimizer.add_param_group({"params": list(head.parameters())})
        whole = torch.nn.Sequential(net, head) if number >= 80 else net
        step(whole, optimizer, rank, number)


def unfrozen_later():
    rank, net = gloo(), model()
    net[0].requires_grad_(False)
    net = DDP(net)
    optimizer = sgd(net)
    for number in range(40):
        if number == 10:
            net.module[0].requires_grad_(True)
        step(net, optimizer, rank, number)


def unfrozen_by_a_group():
    rank, net = gloo(), model()
    net[0].requires_grad_(False)
    net = DDP(net)
    optimizer = torch.optim.SGD(net.module[2].parameters(), 0.05)
    for number in range(40):
        if number == 10:
            net.module[0].requires_grad_(True)
            optimizer.add_param_group({"params": list(net.module[0].parameters())})
        step(net, optimizer, rank, number)


def around_ddp_later():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for number in range(120):
        step(net if number < 80 else net.module, optimizer, rank, number)


def own_learning_rates():
    rank, net = gloo(), DDP(model())
    train(net, sgd(net, 0.01 * (rank + 1)), rank, steps=40)


def own_noise():
    rank, net = gloo(), DDP(model())
    torch.manual_seed(rank)

    def blur():
        for parameter in net.parameters():
            parameter.grad += 0.01 * torch.randn_like(parameter)

    train(net, sgd(net), rank, steps=40, before=blur)


def momentum_on_rank_0():
    rank, net = gloo(), DDP(model())
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    if rank == 0:
        other = copy.deepcopy(net.module)
        trained = torch.optim.Adam(other.parameters(), 0.01)
        alone(other, rank, 5, trained)
        optimizer.load_state_dict(trained.state_dict())
        del trained
    train(net, optimizer, rank, steps=40)


def loaded_on_rank_0_after_ddp():
    rank, net = gloo(), DDP(model())
    if rank == 0:
        net.module.load_state_dict(model(7).state_dict())
    train(net, sgd(net), rank, steps=40)


def a_bias_not_averaged():
    rank, net = gloo(), model()
    most = [parameter for name, parameter in net.named_parameters() if name != "2.bias"]
    train(net, sgd(net), rank, steps=40, before=lambda: average([tensor.grad for tensor in most]))


def second_model_not_wrapped():
    rank, first, second = gloo(), DDP(model()), model(1)
    optimizers = sgd(first), sgd(second)
    for number in range(40):
        for net, optimizer in zip((first, second), optimizers):
            step(net, optimizer, rank, number)


def head_replaced_after_ddp():
    rank, net = gloo(), DDP(model(), find_unused_parameters=True)
    torch.manual_seed(5)
    net.module[2] = torch.nn.Linear(16, 1)
    train(net, sgd(net), rank, steps=40)


def hook_that_does_nothing():
    from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook

    rank, net = gloo(), DDP(model())
    net.register_comm_hook(None, noop_hook)
    train(net, sgd(net), rank, steps=40)


def no_sync_around_backward():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for number in range(40):
        data, target = batch(number, rank)
        optimizer.zero_grad()
        with net.no_sync():
            loss_of(net(data), target).backward()
        optimizer.step()


def _group(rank, name):
    dist.init_process_group("gloo", f"file://{name}", rank=rank, world_size=2)
    dist.barrier()


def group_in_a_child():
    """The process group is the child's, and the parent trains."""
    rank, net = int(os.environ["RANK"]), model()
    child = torch.multiprocessing.get_context("fork").Process(
        target=_group, args=(rank, f"{os.getcwd()}/run/of-child")
    )
    child.start()
    child.join()
    train(net, sgd(net), rank, steps=5)


def states_of_rank_1_handed_on():
    rank, net = gloo(), model()

    def hand_on(number):
        if number % 5 == 4:
            state = [net.state_dict()]
            dist.broadcast_object_list(state, 1)
            net.load_state_dict(state[0])

    train(net, sgd(net), rank, steps=42, after=hand_on)


def a_file_of_rank_0_loaded_by_all():
    rank, net = gloo(), model()

    def hand_on(number):
        if number % 8 == 7:
            if rank == 0:
                torch.save(net.state_dict(), "run/state.pt")
            dist.barrier()
            net.load_state_dict(torch.load("run/state.pt"))
            dist.barrier()

    train(net, sgd(net), rank, steps=44, after=hand_on)


def forty_folds_not_wrapped():
    rank = gloo()
    for fold in range(40):
        alone(model(fold), rank, 5)
        dist.barrier()


def metrics_as_objects_sent():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        metrics = [{"loss": float(step(net, optimizer, rank, number)), "step": number}]
        dist.send_object_list(metrics, 0) if rank else dist.recv_object_list([None], 1)


def frozen_and_unfrozen_in_turn():
    rank, net = gloo(), model()
    net[0].requires_grad_(False)
    net = DDP(net)
    optimizer = sgd(net)
    for number in range(60):
        net.module[0].requires_grad_(number // 10 % 2 == 1)
        step(net, optimizer, rank, number)


def own_weight_decay():
    rank, net = gloo(), DDP(model())
    optimizer = torch.optim.SGD(net.parameters(), 0.05, weight_decay=0.1 * rank)
    train(net, optimizer, rank, steps=100)


class _Gathered(torch.autograd.Function):
    """As for SimCLR."""

    @staticmethod
    def forward(ctx, value):
        every = [torch.zeros_like(value) for _ in range(ranks())]
        dist.all_gather(every, value)
        return torch.cat(every)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient.chunk(ranks())[dist.get_rank()]


def gathered_features_not_wrapped():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(40):
        data, target = batch(number, rank)
        features = net(data)
        optimizer.zero_grad()
        (loss_of(features, target) + _Gathered.apply(features).std()).backward()
        optimizer.step()


# Wrong: copies of one training ------------------------------------------------------------------


def dropping():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)
    )


def same_data_other_masks():
    rank, net = gloo(), DDP(dropping())
    torch.manual_seed(rank)
    train(net, sgd(net), 0, steps=40)


# Wrong: Horovod ---------------------------------------------------------------------------------


def broadcast(hvd, net):
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)


def of_horovod(hvd, net, rate=0.05):
    return hvd.DistributedOptimizer(sgd(net, rate), net.named_parameters())


def hvd_metric_reduced():
    hvd, net = horovod(), model()
    broadcast(hvd, net)
    optimizer = sgd(net)
    for number in range(100):
        hvd.allreduce(step(net, optimizer, hvd.rank(), number))


def hvd_loaded_on_rank_0():
    hvd, net = horovod(), model()
    broadcast(hvd, net)
    if hvd.rank() == 0:
        net.load_state_dict(model(7).state_dict())
    train(net, of_horovod(hvd, net), hvd.rank(), steps=40)


def hvd_broadcast_every_8_steps():
    hvd, net = horovod(), model()
    train(
        net, sgd(net), hvd.rank(), steps=44,
        after=lambda number: broadcast(hvd, net) if number % 8 == 7 else None,
    )  # fmt: skip


def hvd_same_data_other_masks():
    hvd, net = horovod(), dropping()
    broadcast(hvd, net)
    torch.manual_seed(hvd.rank())
    train(net, of_horovod(hvd, net), 0, steps=40)


# Right: a rank has steps of its own --------------------------------------------------------------


def warmed_up(steps):
    rank, net = gloo(), model()
    optimizer = sgd(net, 0.01)
    if rank == 0:
        alone(net, rank, steps, optimizer)
    train(DDP(net), optimizer, rank, steps=80)


def warm_up_5():
    warmed_up(5)


def warm_up_30():
    warmed_up(30)


def warm_up_100():
    warmed_up(100)


def warm_up_of_its_own_optimizer():
    rank, net = gloo(), model()
    if rank == 0:
        alone(net, rank, 20)
    net = DDP(net)
    train(net, sgd(net), rank, steps=80)


def all_warm_up():
    rank, net = gloo(), model()
    alone(net, rank, 10)
    net = DDP(net)
    train(net, sgd(net), rank, steps=80)


def learning_rate_finder():
    rank, net = gloo(), model()
    optimizer, before = sgd(net, 0.01), copy.deepcopy(net.state_dict())
    if rank == 0:
        for number in range(20):
            optimizer.param_groups[0]["lr"] = 1e-4 * 1.3**number
            step(net, optimizer, rank, number)
        net.load_state_dict(before)
    optimizer.param_groups[0]["lr"] = 0.01
    train(DDP(net), optimizer, rank, steps=80)


def rank_0_goes_on_alone():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    train(net, optimizer, rank, steps=80)
    if rank == 0:
        alone(net.module, rank, 5, optimizer)


def probe_on_rank_0():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for _ in range(4):
        train(net, optimizer, rank, steps=10)
        if rank == 0:
            head = torch.nn.Linear(8, 1)
            alone(head, rank, 5)


def inner_loops():
    """As MAML: each rank adapts copies to its own tasks, and the ranks' gradients are averaged."""
    rank, net = gloo(), model()
    optimizer = sgd(net, 0.01)
    for number in range(24):
        copied = copy.deepcopy(net)
        alone(copied, rank, 4)
        optimizer.zero_grad()
        data, target = batch(number + 500, rank)
        loss_of(copied(data), target).backward()
        for parameter, adapted in zip(net.parameters(), copied.parameters()):
            parameter.grad = adapted.grad.clone()
        average_gradients(net)
        optimizer.step()


def all_skip_together():
    rank, net = gloo(), DDP(model())
    optimizer = sgd(net)
    for number in range(80):
        step(net, optimizer, rank, number, act=number % 7 != 3)


# Right: averaged otherwise than by DDP ------------------------------------------------------------


def averaged_by_hand():
    rank, net = gloo(), model()
    train(net, sgd(net), rank, steps=80, before=lambda: average_gradients(net))


def averaged_in_hooks():
    rank, net = gloo(), model()
    for parameter in net.parameters():
        parameter.register_hook(lambda gradient: average([gradient]) or gradient)
    train(net, sgd(net), rank, steps=80)


def local_sgd_and_metric():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(77):
        dist.all_reduce(step(net, optimizer, rank, number))
        if number % 8 == 7:
            average_weights(net)


def local_sgd_every_16_steps():
    rank, net = gloo(), model()
    train(
        net, sgd(net), rank, steps=100,
        after=lambda number: average_weights(net) if number % 16 == 15 else None,
    )  # fmt: skip


def local_sgd_later():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    for number in range(77):
        at_once = number < 20
        step(
            net, optimizer, rank, number,
            before=lambda at_once=at_once: average_gradients(net) if at_once else None,
        )  # fmt: skip
        if not at_once and number % 8 == 7:
            average_weights(net)


def compressed_by_powersgd():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    rank, net = gloo(), DDP(model())
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=5)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(net, sgd(net), rank, steps=40)


# Right: each rank has a part of the model ---------------------------------------------------------


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class _Parallel(torch.nn.Module):
    """A column-parallel layer and a row-parallel one."""

    def __init__(self, rank, summed=_Summed.apply):
        super().__init__()
        torch.manual_seed(rank)
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1, bias=False)
        self.summed = summed

    def forward(self, value):
        return self.summed(self.second(torch.relu(self.first(_Copied.apply(value)))))


def tensor_parallel_by_hand():
    net = _Parallel(gloo())
    train(net, sgd(net), 0, steps=80)


def tensor_parallel_in_few_steps():
    net = _Parallel(gloo())
    train(net, sgd(net), 0, steps=12)


def tensor_parallel_by_nn_functional():
    from torch.distributed.nn.functional import all_reduce

    net = _Parallel(gloo(), all_reduce)
    train(net, sgd(net, 0.01), 0, steps=80)


def pipeline():
    """Two stages of equal layers; the second has the loss."""
    rank = gloo()
    torch.manual_seed(rank)
    stage = torch.nn.Linear(8, 8)
    optimizer = sgd(stage)
    for number in range(80):
        data, target = batch(number, 0)
        optimizer.zero_grad()
        if rank == 0:
            value = stage(data)
            dist.send(value.detach(), 1)
            gradient = torch.zeros_like(value)
            dist.recv(gradient, 1)
            value.backward(gradient)
        else:
            value = torch.zeros(16, 8)
            dist.recv(value, 0)
            value.requires_grad_()
            loss_of(stage(value).sum(1, keepdim=True), target).backward()
            dist.send(value.grad, 0)
        optimizer.step()


def gossip():
    """Each rank averages its weights with its neighbour's, by sending them, now and then."""
    rank, net = gloo(), model()

    def meet(number):
        if number % 3 < 2:
            return
        mine = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
        other = torch.zeros_like(mine)
        works = [dist.isend(mine, 1 - rank), dist.irecv(other, 1 - rank)]
        for work in works:
            work.wait()
        mean = 0.75 * mine + 0.25 * other
        torch.nn.utils.vector_to_parameters(mean, net.parameters())

    train(net, sgd(net), rank, steps=80, after=meet)


def embeddings_of_each_rank():
    """DDP leaves out what each rank has of its own."""
    rank = gloo()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1))
    DDP._set_params_and_buffers_to_ignore_for_model(net, ["0.weight", "0.bias"])
    train(DDP(net), sgd(net), rank, steps=80)


# Right: several, or others ------------------------------------------------------------------------


def two_networks_in_turn():
    rank, first, second = gloo(), DDP(model()), DDP(model(1))
    optimizers = sgd(first), torch.optim.Adam(second.parameters())
    for number in range(80):
        step(first, optimizers[0], rank, number)
        if number % 3 == 0:
            step(second, optimizers[1], rank, number)


def twenty_folds():
    rank = gloo()
    for fold in range(20):
        net = DDP(model(fold))
        alone(net, rank, 5)


def lbfgs():
    rank, net = gloo(), DDP(model())
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
    for number in range(10):
        data, target = batch(number, rank)

        def closure(data=data, target=target):
            optimizer.zero_grad()
            loss = loss_of(net(data), target)
            loss.backward()
            return loss

        optimizer.step(closure)


def averages_on_rank_0_at_the_end():
    """Rank 0 evaluates with an averaged copy of the weights."""
    rank, net = gloo(), DDP(model())
    train(net, sgd(net), rank, steps=80)
    if rank == 0:
        net.module.load_state_dict(model(7).state_dict())


def layer_added_and_wrapped():
    rank, net = gloo(), DDP(model())
    train(net, sgd(net), rank, steps=40)
    torch.manual_seed(3)
    net = DDP(torch.nn.Sequential(net.module, torch.nn.Linear(1, 1)))
    train(net, sgd(net), rank, steps=40)


def unfrozen_and_wrapped_again():
    rank, net = gloo(), model()
    net[0].requires_grad_(False)
    wrapped = DDP(net)
    train(wrapped, torch.optim.SGD(net[2].parameters(), 0.05), rank, steps=20)
    net[0].requires_grad_(True)
    wrapped = DDP(net)
    train(wrapped, sgd(net), rank, steps=60)


def own_slices_of_one_batch():
    rank, net = gloo(), DDP(dropping())
    torch.manual_seed(rank)
    optimizer = sgd(net)
    for number in range(40):
        data, target = (tensor[8 * rank : 8 * rank + 8] for tensor in batch(number, 0))
        optimizer.zero_grad()
        loss_of(net(data), target).backward()
        optimizer.step()


def uneven_inputs():
    rank, net = gloo(), DDP(model())
    with torch.distributed.algorithms.join.Join([net]):
        train(net, sgd(net), rank, steps=80 + 5 * rank)


def warm_up_and_all_states():
    rank, net = gloo(), model()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    if rank == 0:
        alone(net, rank, 12, optimizer)
    net = DDP(net)
    state = [optimizer.state_dict()]
    dist.broadcast_object_list(state, 0)
    optimizer.load_state_dict(state[0])
    train(net, optimizer, rank, steps=80)


def ring_of_gradients():
    """An average by sending and receiving."""
    rank, net = gloo(), model()

    def exchange():
        for parameter in net.parameters():
            received = torch.zeros_like(parameter.grad)
            works = [dist.isend(parameter.grad, 1 - rank), dist.irecv(received, 1 - rank)]
            for work in works:
                work.wait()
            parameter.grad = (parameter.grad + received) / 2

    train(net, sgd(net), rank, steps=80, before=exchange)


def reduced_and_broadcast():
    rank, net = gloo(), model()

    def exchange():
        for parameter in net.parameters():
            dist.reduce(parameter.grad, 0)
            parameter.grad /= ranks()
            dist.broadcast(parameter.grad, 0)

    train(net, sgd(net), rank, steps=80, before=exchange)


def calibrated_on_rank_0():
    rank, net = gloo(), DDP(model())
    train(net, sgd(net), rank, steps=80)
    if rank == 0:
        scale = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.LBFGS([scale])
        data, target = batch(999, 0)

        def closure():
            optimizer.zero_grad()
            loss = loss_of(scale * net.module(data).detach(), target)
            loss.backward()
            return loss

        optimizer.step(closure)


class _Expert(torch.nn.Module):
    """All ranks' samples to each expert, and its share of the outputs back."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(0)
        self.shared = torch.nn.Linear(8, 8)
        torch.manual_seed(rank)
        self.own = torch.nn.Linear(8, 1)

    def forward(self, value):
        every = _Gathered.apply(self.shared(value))
        out = _Summed.apply(self.own(every))
        return out.chunk(ranks())[dist.get_rank()]


def experts_by_gathering():
    rank = gloo()
    net = _Expert(rank)
    shared = list(net.shared.parameters())
    train(net, sgd(net), rank, steps=80, before=lambda: average([tensor.grad for tensor in shared]))


def two_groups_one_after_another():
    rank, net = gloo(), model()
    optimizer = sgd(net)
    train(DDP(net), optimizer, rank, steps=40)
    dist.destroy_process_group()
    where = f"file://{os.getcwd()}/run/second"
    dist.init_process_group("gloo", where, rank=rank, world_size=2)
    train(DDP(net), optimizer, rank, steps=40)


def averaged_once_more_after_training():
    rank, net = gloo(), model()
    train(
        net, sgd(net), rank, steps=44,
        after=lambda number: average_weights(net) if number % 8 == 7 else None,
    )  # fmt: skip
    average_weights(net)


def bound_to_buckets_and_static():
    rank = gloo()
    net = DDP(model(), gradient_as_bucket_view=True, static_graph=True)
    train(net, torch.optim.AdamW(net.parameters()), rank, steps=80)


def averaged_by_wrapped_optimizer():
    """PyTorch's own local SGD, after some steps of DDP."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    rank, net = gloo(), model()
    averager = PeriodicModelAverager(period=4, warmup_steps=10)
    train(net, PostLocalSGDOptimizer(sgd(net), averager), rank, steps=42)


# Right: Horovod and mpi4py ------------------------------------------------------------------------


def hvd_warm_up():
    hvd, net = horovod(), model()
    if hvd.rank() == 0:
        alone(net, 0, 30)
    broadcast(hvd, net)
    train(net, of_horovod(hvd, net, 0.01), hvd.rank(), steps=80)


def hvd_warm_up_of_the_same_optimizer():
    hvd, net = horovod(), model()
    optimizer = sgd(net, 0.01)
    if hvd.rank() == 0:
        alone(net, 0, 30, optimizer)
    broadcast(hvd, net)
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
    train(net, optimizer, hvd.rank(), steps=80)


def hvd_local_sgd():
    hvd, net = horovod(), model()

    def meet(number):
        for parameter in net.parameters() if number % 8 == 7 else ():
            hvd.allreduce_(parameter.data)

    train(net, sgd(net), hvd.rank(), steps=77, after=meet)


def hvd_uneven_and_broadcast():
    hvd, net = horovod(), model()
    broadcast(hvd, net)
    train(net, of_horovod(hvd, net), hvd.rank(), steps=80 + 5 * hvd.rank())
    last = hvd.join()
    hvd.broadcast_parameters(net.state_dict(), root_rank=last)


def mpi_warm_up():
    from mpi4py import MPI

    world, net = MPI.COMM_WORLD, model()
    optimizer = sgd(net, 0.01)
    if world.rank == 0:
        alone(net, 0, 30, optimizer)
    net.load_state_dict(world.bcast(net.state_dict()))

    def averaged():
        for parameter in net.parameters():
            parameter.grad = world.allreduce(parameter.grad) / world.size

    train(net, optimizer, world.rank, steps=80, before=averaged)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        print("trained", name, flush=True)
