"""Train a ResNet on pictures, or measure its speed on synthetic ones, with PyTorch and Horovod.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG,
for resnet50 and resnet18; CIFAR-10 for resnet110 and resnet20. With `--synthetic` nothing is read:
the speed of each rank and of all is told with its 95 % confidence interval, after a warm-up.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_resnet -- --epochs 5 --synthetic
    horovodrun -np 2 python -m recipes.torch_resnet --model resnet110 --data cifar10
    python -m recipes.torch_resnet --synthetic --image-size 64

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`. Ranks normalise over their own batches, as is usual: so, unlike `torch_mnist`, N ranks
with batches of b learn a little differently from one rank with batches of N b.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import horovod
import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

from recipes import common, resnets, torch_common, torch_pictures, torch_resnets
from recipes.pictures import PictureSet


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("torch_resnet", "Train a ResNet on pictures.")
    resnets.add_options(parser)
    return resnets.check(common.parse(parser, argv))


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    common.before_init(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: an error on any rank stops all of them, with one message.
    args = common.together(hvd, lambda: settings(argv))
    device = common.together(hvd, lambda: torch_common.pick_device(args, hvd))
    data = resnets.load(args, hvd)  # Horovod: one rank looks for the files, for all.
    versions = {"torch": torch.__version__, "horovod": horovod.__version__}
    run = common.Run(args, hvd, "torch_resnet", device=str(device), versions=versions)
    run.introduce(f"{args.model} on {data.describe()}")

    model = train(args, run, data, device)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.detach().cpu().numpy() for weight in model.parameters())
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    run.finish(**resnets.tell_speed(args, run, hvd.size()))
    hvd.shutdown()  # Horovod: leave together.


def prepare(
    args: Namespace, data: PictureSet, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    torch.manual_seed(args.seed)
    model = torch_resnets.build(args.model, data.classes).to(device)
    weights = torch_resnets.decayed(model, args.weight_decay)
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(weights, lr=args.base_lr, momentum=args.momentum),
        named_parameters=model.named_parameters(),
        **torch_common.exchange(args, hvd),
    )
    # Horovod: all ranks start from the weights of rank 0. The optimiser's state is empty, or comes
    # to all ranks from a checkpoint; hvd.broadcast_optimizer_state would take a step to make one,
    # and with weight decay that step changes the weights.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, optimizer


def train(args: Namespace, run: common.Run, data: PictureSet, device: torch.device) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.together(hvd, lambda: resnets.shares(args, hvd, len(data.train)))
    model, optimizer = prepare(args, data, device)
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    course = run.resume(torch_common.State(hvd, model, optimizer, scaler=scaler), shards)
    feed = torch_pictures.Feed(data, course, args.epochs, args.workers, device)
    # Horovod: all ranks stop in the same step, if one was asked to, or cannot read a picture.
    agreement = torch_common.Agreement(hvd, run, device)
    with torch_common.profiled(args, run) as profiler:
        for epoch in course.epochs():
            model.train()
            loss_sum = torch.tensor(run.loss_before(), device=device)
            for batch in course.batches():
                # Horovod: the rate grows with the number of ranks, after a warm-up.
                progress = epoch - 1 + batch.before / shards.count
                rate = resnets.rate(args, hvd, progress)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.zero_grad()
                losses = torch.zeros((), device=device)
                for part in batch.parts:
                    x, y = agreement.read(feed, part)
                    with torch_common.autocast(args, device):
                        loss = functional.cross_entropy(
                            model(x), y, reduction="sum", label_smoothing=args.label_smoothing
                        )
                    scaler.scale(loss * torch_common.weight(args, batch)).backward()
                    losses += loss.detach()
                agreement.ask(losses)
                torch_common.update(args, optimizer, scaler)
                loss_sum += losses
                stop = agreement.stop()
                run.step_done(batch, losses)
                profiler.step()
                if run.must_save(stop=stop):
                    average_statistics(model)
                    # Horovod: a checkpoint has the sum of all ranks.
                    total = hvd.allreduce(loss_sum, op=hvd.Sum, name="loss").item()
                    run.save_within(total, stop=stop)
            local = [loss_sum.item()]  # item() waits for the device: the clock stops after it
            seconds = course.seconds()
            average_statistics(model)
            local.append(run.trained())
            # Horovod: a picture that cannot be read may be in one rank's share only.
            local += common.together(hvd, lambda: evaluate(args, model, data, device))
            # Horovod: sums over all ranks, so that the means count every sample alike.
            sums = hvd.allreduce(torch.tensor(local, dtype=torch.float64), op=hvd.Sum, name="sums")
            run.epoch_done(sums.tolist(), learning_rate=rate, seconds=seconds)
    return model


def average_statistics(model: nn.Module) -> None:
    """Let all ranks go on with the same running statistics: the mean of what each has seen."""
    own = [one for one in model.buffers() if one.is_floating_point()]
    # Horovod: all of them in one exchange.
    for mine, mean in zip(own, hvd.grouped_allreduce(own, op=hvd.Average, name="statistics")):
        mine.copy_(mean)


def evaluate(
    args: Namespace, model: nn.Module, data: PictureSet, device: torch.device
) -> list[float]:
    """Test this rank's share; return its sum of losses, its right answers and its size."""
    # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
    share = common.evaluation_share(len(data.test), hvd.rank(), hvd.size())
    parts = [(0, part) for part in common.chunks(share, args.batch_size)]
    loss = right = 0.0
    model.eval()
    with torch.no_grad():
        scaled = torch_pictures.Scaled(data, device)
        for x, y in torch_pictures.stream(data.test, parts, args.workers, scaled):
            guesses = model(x)
            loss += functional.cross_entropy(guesses, y, reduction="sum").item()
            right += (guesses.argmax(1) == y).sum().item()
    return [loss, right, len(share)]


if __name__ == "__main__":
    main()
