"""Lets this node's sampler (sample_ranks.py) read a rank's Python stack and its training steps.

faulthandler writes the stack of the main thread from a signal's handler in C: so also while the
rank waits in C code, or another thread holds the GIL. It goes into memory without a path
(memfd_create(2)), which only its owner opens, and only by /proc: nothing to write on a shared file
system, or under a name that others could guess. Every Python of the job loads this at its start.
"""

import faulthandler
import os
import sys

# A real-time signal: neither frameworks nor Slurm send them. As a number, because the node's C
# library and the image's may begin to count (SIGRTMIN) at another one.
SIGNAL = 49
NAME = "runner-stack"  # of the memory, and TRAINER or WORKER, and the rank
TRAINER, WORKER = "trainer", "worker"  # a worker: started by a launcher such as torchrun
RANK = "RUNNER_RANK"
# Before the stacks, two integers as this machine writes them: the optimizers' steps, and the
# descriptor into which the handler writes: a trainer may have closed it, and opened another file.
NUMBER = 8  # bytes
HEAD = 2 * NUMBER
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

memories: "list[int]" = []  # the descriptor of this process's memory


def below_an_agent() -> bool:
    """Whether this process is torchrun's or another agent's, whose workers are the ranks."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "RUNNER_AGENT" in os.environ


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
        os.write(memory, bytes(NUMBER) + memory.to_bytes(NUMBER, sys.byteorder))
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
