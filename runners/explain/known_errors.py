"""Errors in a rank's own words, by a table: how they read, what happened, and what mends it.

NOTE: rows that need a GPU to be caused have been seen as text only (PyTorch 2.10, NCCL 2.27).
"""

from __future__ import annotations

from ..core.remedy import advice, change
from .finding_helpers import edit, on_node, smaller_batch
from .table import Row, in_own_code, signatures

COMPARED = "Horovod compares what the ranks send, and says so"
KNOWN = (
    Row(
        "no-gpu",
        r"Torch not compiled with CUDA enabled",
        "the image {image} is one for CPUs, and the trainer computes on a GPU",
        change(image="horovod_gpu.sif", gpus_per_node="1"),
    ),
    Row(
        "torchvision-operators",
        r"Couldn't load (?:custom C\+\+ ops|the image extension)",
        "the trainer needs a compiled operator of torchvision, and {image} has torchvision without "
        "them: its own advice about versions misleads",
        advice("docs/concepts/images.md, What scripts import; the GPU image has them"),
    ),
    Row(
        "no-gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device"
        r"|CUDA_ERROR_NO_DEVICE",
        "{who} sees no GPU: the job asked for none, or the driver is not in the image",
        change(nv=True, gpus_per_node="1"),
    ),
    Row(
        "no-such-gpu",
        r"invalid device ordinal",
        "{who} takes a GPU by a number that is not there: more ranks than GPUs",
        change(ntasks_per_node=1),
        "CUDA says so; by local rank each rank of a node takes another one",
        sure=False,
    ),
    Row(
        "gpu-memory",
        r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemoryError|OOM when alloc",
        "the memory of the GPU of {who} does not suffice",
        lambda facts, _: smaller_batch(facts) or change(arguments={"--batch-size": 16}),
    ),
    # Which of its many reasons it was
    Row(
        "nccl",
        r"NCCL [Ee]rror|nccl(?:System|Internal|UnhandledCuda|Remote|InvalidUsage)Error",
        "NCCL failed on {who}: {error}",
        change(env="NCCL_DEBUG=INFO"),
        "NCCL says that it failed, and not why; its own log does",
        sure=False,
    ),
    # Lightning 2.0 took it out
    Row(
        "no-horovod-strategy",
        r"cannot import name 'HorovodStrategy' from '(?:pytorch_)?lightning",
        "Lightning 2 has no HorovodStrategy any more; there is one in recipes.lightning_horovod, "
        "and `runner recipes copy lightning_mnist` shows its use",
    ),
    Row(
        "ranks-differ",
        r"(?P<what>Mismatched \w+ .*)",
        "the ranks gave Horovod unlike tensors under one name: {what}",
        because=COMPARED,
    ),
    Row(
        "duplicate-name",
        r"Duplicate tensor name (?P<name>\S+)",
        "{who} used the name {name} for two operations at once",
        because="Horovod says so",
    ),
    Row(
        "duplicate-name",
        r"with the same name as another tensor",
        "{who} used one name for two operations at once",
        because="Horovod says so",
    ),
    Row(
        "syntax-error",
        r"(?:SyntaxError|IndentationError|TabError): (?P<what>.*)",
        "Python cannot read the trainer: {what}",
    ),
    Row(
        "too-many-open-files",
        r"Too many open files",
        "{who} has more files open than the limit (ulimit -n) allows",
        lambda facts, _: on_node(facts, "bash", "-c", "ulimit -n; ulimit -Hn"),
    ),
    # torch's words have the number; they are in known_worlds, which is asked first
    Row(
        "port-taken",
        r"[Aa]ddress already in use|EADDRINUSE",
        "{who} listens at a port that is taken: by another rank on its node, as when each starts "
        "the same server, or by another job",
        lambda facts, _: on_node(facts, "ss", "-ltnp"),
    ),
    Row(  # told apart from the kernel's killing a rank
        "memory-refused",
        r"^(?!.*CUDA).*(?:MemoryError|can't allocate memory|Cannot allocate memory|bad_alloc)",
        "{who} asked for more memory than it could have: {error}",
        lambda facts, _: smaller_batch(facts) or edit(facts),
    ),
)
SIGNATURES = signatures(KNOWN, in_own_code)
