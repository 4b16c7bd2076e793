"""Every Python of a job loads this module at its start, so it imports little.

An import hook hands each framework to frameworks.py as soon as it has been imported. It also
lets this node's sampler (sample_ranks.py) read a rank's stack and its training steps: faulthandler
writes the stack of the main thread from a signal's handler in C, so also while the rank waits in C
code, or another thread holds the GIL. It goes into memory without a path (memfd_create(2)), which
only its owner opens, and only by /proc: nothing to write on a shared file system, or under a name
that others could guess.
"""

import faulthandler
import os
import pwd
import sys

from . import bytecode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional

HOOKS = {  # module -> the function of frameworks.py that wraps it
    "horovod.common.basics": "horovod",
    "torch.distributed.distributed_c10d": "torch",
    "tensorflow.python.distribute.collective_all_reduce_strategy": "tensorflow",
    "mpi4py.MPI": "mpi",
    "horovod.tensorflow": "tapes",
    "horovod.torch.mpi_ops": "horovod_torch",
    "torch.optim.optimizer": "optimizers",
    "tensorflow.python.eager.backprop": "gradient_tapes",
    "keras.src.optimizers.base_optimizer": "keras",
    "keras.src.optimizers.optimizer": "keras",  # of Keras 2
    "tf_keras.src.optimizers.optimizer": "keras",
}
# A real-time signal: neither frameworks nor Slurm send them. As a number, because the node's C
# library and the image's may begin to count (SIGRTMIN) at another one.
SIGNAL = 49
NAME = "runner-stack"  # of the memory, and TRAINER or WORKER, and the rank
TRAINER, WORKER = "trainer", "worker"  # a worker: started by a launcher such as torchrun
RANK = "RUNNER_RANK"
NAMELESS = "RUNNER_NAMELESS"  # set where the container does not know the user, with a name
RAS_ADDRESS = "NCCL_RAS_ADDR"  # where NCCL's RAS is to listen
VISIBLE = "CUDA_VISIBLE_DEVICES"
INSTANCES = "RUNNER_MIG_INSTANCES"  # the node's, for the workers of an agent (visible_gpus.py)
# Before the stacks, three integers as this machine writes them: the optimizers' steps, the
# descriptor into which the handler writes (a trainer may have closed it, and opened another file),
# and the port of NCCL's RAS.
NUMBER = 8  # bytes
HEAD = 3 * NUMBER
memories: "list[int]" = []  # the descriptor of this process's memory


def begin(wrap: "Callable[[str, ModuleType], None]") -> None:
    """Let this process answer the sampler, and hand the modules of HOOKS to `wrap`."""
    answer()
    see_one_instance()
    bytecode.use_beside_source()
    sys.meta_path.insert(0, Finder(wrap))
    complete_pwd()


class Finder:
    """Finds modules as the other finders do; calls `wrap` with the hook and the module of HOOKS."""

    def __init__(self, wrap: "Callable[[str, ModuleType], None]") -> None:
        self.wrap = wrap

    def find_spec(
        self,
        fullname: str,
        path: "Optional[Sequence[str]]",
        target: "Optional[ModuleType]" = None,
    ) -> "Optional[ModuleSpec]":
        """Give the modules of HOOKS, and no others, a loader that hands them on."""
        if fullname not in HOOKS:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((found for found in specs if found is not None), None)
        if spec is not None and spec.loader is not None:
            self._wrap_loader(HOOKS[fullname], spec.loader)
        return spec

    def _wrap_loader(self, hook: str, loader: "Any") -> None:
        load = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            load(module)
            self.wrap(hook, module)

        loader.exec_module = exec_module


def below_an_agent() -> bool:
    """Whether this process is torchrun's or another agent's, whose workers are the ranks."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "RUNNER_AGENT" in os.environ


def see_one_instance() -> None:
    """Give a worker of an agent the MIG instance of its local rank, before it loads CUDA.

    DeepSpeed's own launcher has numbered the devices for its workers, which no instance has.
    """
    own, local_rank = os.environ.get(INSTANCES, ""), os.environ.get("LOCAL_RANK", "")
    if own and local_rank.isdigit() and below_an_agent():
        names = own.split(",")
        os.environ[VISIBLE] = names[int(local_rank) % len(names)]


def answer() -> None:
    """Answer SIGNAL from now on, as the rank that the environment names."""
    worker = below_an_agent() and "RANK" in os.environ
    rank = os.environ.get("RANK" if worker else RANK, "")
    if not hasattr(os, "memfd_create") or not rank.isdigit():
        return
    try:
        first = os.memfd_create(f"{NAME}-{WORKER if worker else TRAINER}-{rank}")
        # Once more, to append: a sampler cuts off what it has read.
        memory = os.open(f"/proc/self/fd/{first}", os.O_RDWR | os.O_APPEND)
        os.close(first)
        port = os.environ.get(RAS_ADDRESS, "").rpartition(":")[2]
        numbers = (0, memory, int(port) if port.isdecimal() and len(port) < 6 else 0)
        os.write(memory, b"".join(number.to_bytes(NUMBER, sys.byteorder) for number in numbers))
        faulthandler.register(SIGNAL, file=memory, all_threads=False)
        memories.append(memory)
    except (OSError, RuntimeError):  # an old kernel; a rank without a stack is told as such
        return


def count_steps(optimizer: "Any") -> None:
    """Count the steps of all of PyTorch's optimizers (2.0 and later): a quiet training moves."""
    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if not register or not memories:
        return
    import mmap  # here, because small images without PyTorch may lack it

    steps = memoryview(mmap.mmap(memories[0], HEAD)).cast("Q")

    def count(*_: object) -> None:
        steps[0] += 1

    register(count)


def complete_pwd() -> None:
    """Let pwd.getpwuid answer for a user whom the container does not know: PyTorch's compiler cache
    and others ask for it.
    """
    name, uid, lookup = os.environ.get(NAMELESS), os.getuid(), pwd.getpwuid
    if not name:
        return
    home = os.environ.get("HOME", "/")
    own = pwd.struct_passwd((name, "x", uid, os.getgid(), "", home, "/bin/sh"))
    pwd.getpwuid = lambda number: own if number == uid else lookup(number)
