"""One rank that trains some steps whenever it is told to: steps.py FOLDER BACKEND MODEL [OPTION...]

BACKEND is horovod, ddp, apart (nothing is exchanged), tensorflow (with Horovod) or alone (without
it). MODEL is small (torch_mnist's: many small exchanges), large (torch_lm's with 3.2 million
weights on few tokens: much to exchange), or a number of bytes: an allreduce of them, nothing else.
OPTION: threads=N, pin=1 (each rank on a core of its own), exchange=fp16|bf16, passes=N.

`FOLDER/RANK.orders` has a line with the number of steps for each turn; `FOLDER/RANK.done` gets
the seconds of a step, by the clock and of CPU, and the number of CPUs that it may run on, as JSON.
The first one appears when it is ready.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Callable

KIT = Path(__file__).resolve().parents[3]
STEPS_TO_WARM_UP = 5
RATE = 1e-3
Step = Callable[[], object]


def main() -> None:
    """Be a rank until there are no more orders."""
    sys.path.insert(0, str(KIT))
    folder, backend, model = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    options = dict(text.split("=") for text in sys.argv[4:])
    if options.get("pin"):
        place = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RUNNER_TASK_RANK"]
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[int(place) % len(cpus)]})
    made = {
        "horovod": horovod, "ddp": ddp, "apart": apart, "tensorflow": tensorflow, "alone": alone
    }  # fmt: skip
    rank, step = made[backend](model, options)
    for _ in range(STEPS_TO_WARM_UP):
        step()
    serve(folder, rank, step)


def serve(folder: Path, rank: int, step: Step) -> None:
    """Do what is ordered, and tell how long it took."""
    tell(folder / f"{rank}.done", {"pid": os.getpid()})
    with (folder / f"{rank}.orders").open() as orders:
        for order in orders:
            step()  # after it all ranks are at the same place
            clock, cpu = time.perf_counter(), time.process_time()
            for _ in range(int(order)):
                step()
            seconds = [time.perf_counter() - clock, time.process_time() - cpu]
            each = [value / int(order) for value in seconds]
            tell(folder / f"{rank}.done", [*each, len(os.sched_getaffinity(0))])


def tell(path: Path, content: Any) -> None:
    """Write a file, whole."""
    path.with_suffix(".part").write_text(json.dumps(content))
    path.with_suffix(".part").rename(path)


def torch_model(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return a network of the trainers, and what gives its loss on fixed data."""
    import torch
    from torch.nn import functional

    from recipes import torch_lm, torch_mnist

    torch.manual_seed(1)
    if name == "small":
        x, y = torch.randn(32, 8, 8), torch.randint(0, 10, (32,))
        data: Any = Namespace(height=8, width=8, classes=10)
        network = torch_mnist.build_model(Namespace(dropout=0.5), data)
        return network, lambda net: functional.cross_entropy(net(x), y)
    text = torch.randint(0, 64, (2, 33))
    sizes = Namespace(width=256, heads=4, layers=4, context=32)
    given, wanted = text[:, :-1], text[:, 1:].flatten()
    network = torch_lm.LanguageModel(sizes, 64)
    return network, lambda net: functional.cross_entropy(net(given).flatten(0, 1), wanted)


def horovod(name: str, options: dict[str, str]) -> tuple[int, Step]:
    """Return this rank's number and a step with Horovod, as torch_mnist makes it."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.set_num_threads(int(options.get("threads", "1")))
    if name.isdigit():
        numbers = torch.ones(int(name) // 4)
        return hvd.rank(), lambda: hvd.allreduce_(numbers, name="numbers")
    network, loss_of = torch_model(name)
    passes = int(options.get("passes", "1"))
    # Horovod: as recipes/torch_mnist.py does.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9),
        named_parameters=network.named_parameters(),
        compression=getattr(hvd.Compression, options.get("exchange", "none")),
        backward_passes_per_step=passes,
    )
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(passes):
            loss_of(network).backward()
        optimizer.step()

    return hvd.rank(), step


def ddp(name: str, options: dict[str, str]) -> tuple[int, Step]:
    """Return this rank's number and a step with DDP, as torch_mnist --exchange ddp makes it."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from recipes import distributed

    rank = distributed.torch_ranks().rank
    torch.set_num_threads(int(options.get("threads", "1")))
    if name.isdigit():
        numbers = torch.zeros(int(name) // 4)
        return rank, lambda: torch.distributed.all_reduce(numbers)
    network, loss_of = torch_model(name)
    parallel = DistributedDataParallel(network)
    passes = int(options.get("passes", "1"))
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        with parallel.no_sync():
            for _ in range(passes - 1):
                loss_of(parallel).backward()
        loss_of(parallel).backward()
        optimizer.step()

    return rank, step


def apart(name: str, options: dict[str, str]) -> tuple[int, Step]:
    """Return this rank's number and a step alone: what as many ranks reach at the same time."""
    import torch

    torch.set_num_threads(1)
    network, loss_of = torch_model(name)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(network).backward()
        optimizer.step()

    return int(os.environ["HOROVOD_RANK"]), step


def tensorflow(name: str, options: dict[str, str]) -> tuple[int, Step]:
    """Return this rank's number and a step of TensorFlow after hvd.init()."""
    import horovod.tensorflow as hvd

    hvd.init()
    return hvd.rank(), tensorflow_step(options)


def alone(name: str, options: dict[str, str]) -> tuple[int, Step]:
    """Return 0 and a step of TensorFlow that knows nothing of Horovod."""
    return 0, tensorflow_step(options)


def tensorflow_step(options: dict[str, str]) -> Step:
    """Return a step that exchanges nothing: it shows what hvd.init() leaves of the CPUs."""
    import tensorflow as tf

    if options.get("threads"):
        tf.config.threading.set_intra_op_parallelism_threads(int(options["threads"]))
    x = tf.random.normal((64, 32, 32, 32))
    kernel = tf.Variable(tf.random.normal((3, 3, 32, 64)))

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow is not installed here
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")) ** 2)
        kernel.assign_sub(0.001 * tape.gradient(loss, kernel))
        return loss

    return lambda: step().numpy()


if __name__ == "__main__":
    main()
