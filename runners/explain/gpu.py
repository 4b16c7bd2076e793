"""GPUs: none, too little memory on them, NCCL.

NOTE: what needs a GPU to be caused has been seen as text only (PyTorch 2.10, NCCL 2.27); the tests
on the cluster cause `no-gpu`.
"""

from __future__ import annotations

import re

from ..core.remedy import change
from .explanation import Finding, Signature
from .facts import Facts
from .finding_helpers import certain, likely, smaller_batch, who

NO_CUDA_BUILD = re.compile(r"Torch not compiled with CUDA enabled")
NO_GPU = re.compile(
    r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device|CUDA_ERROR_NO_DEVICE"
)
ORDINAL = re.compile(r"invalid device ordinal")
MEMORY = re.compile(r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemoryError|OOM when alloc")
NCCL = re.compile(r"NCCL [Ee]rror|nccl(?:System|Internal|UnhandledCuda|Remote|InvalidUsage)Error")


def no_gpu(facts: Facts) -> Finding | None:
    """The trainer computes on a GPU, and the image or the job has none."""
    if NO_CUDA_BUILD.search(facts.error):
        cause = f"the image {facts.image} is one for CPUs, and the trainer computes on a GPU"
        return certain(facts, cause, change(image="horovod_gpu.sif", gpus_per_node="1"))
    if not NO_GPU.search(facts.error):
        return None
    cause = f"{who(facts)} sees no GPU: the job asked for none, or the driver is not in the image"
    return certain(facts, cause, change(nv=True, gpus_per_node="1"))


def ordinal(facts: Facts) -> Finding | None:
    """A rank takes a GPU that it does not have."""
    if not ORDINAL.search(facts.error):
        return None
    cause = f"{who(facts)} takes a GPU by a number that is not there: more ranks than GPUs"
    because = "CUDA says so; by local rank each rank of a node takes another one"
    return likely(facts, cause, change(ntasks_per_node=1), because=because)


def gpu_memory(facts: Facts) -> Finding | None:
    """The GPU's memory does not suffice."""
    if not MEMORY.search(facts.error):
        return None
    cause = f"the memory of the GPU of {who(facts)} does not suffice"
    return certain(facts, cause, smaller_batch(facts) or change(arguments={"--batch-size": 16}))


def nccl(facts: Facts) -> Finding | None:
    """NCCL failed; which of its many reasons it was, only its own log tells."""
    if not NCCL.search(facts.error):
        return None
    cause = f"NCCL failed on {who(facts)}: {facts.error}"
    because = "NCCL says that it failed, and not why; its own log does"
    return likely(facts, cause, change(env="NCCL_DEBUG=INFO"), because=because)


SIGNATURES = (
    Signature("no-gpu", no_gpu),
    Signature("no-such-gpu", ordinal),
    Signature("gpu-memory", gpu_memory),
    Signature("nccl", nccl),
)
