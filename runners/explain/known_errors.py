"""Errors in a rank's own words, by a table: how they read, what happened, and how to fix it.

The words are those of PyTorch 2.13, and of TensorFlow 2.21 with Keras 3.
NOTE: rows that need a GPU to be caused have been seen as text only (PyTorch 2.10, NCCL 2.27).
"""

from __future__ import annotations

from ..core.remedy import Remedy, advice, change, together
from .facts import Facts
from .finding_helpers import edit, logs, on_node, smaller_batch
from .table import Row, in_own_code, signatures

COMPARED = "Horovod compares the ranks' tensors and reports it"
OPTIMIZERS = r"(?:SGD|Adam\w*|RMSprop|Ftrl|Nadam|Lion|Adagrad|Adadelta)"
OF_KERAS_2 = "the trainer is written for Keras 2, and TensorFlow uses Keras 3 by default"
KERAS_2 = change(env=["TF_USE_LEGACY_KERAS=1"])
OTHERS_TELL = "the log lines of the other ranks say more"


def _the_jobs_own(facts: Facts, _: object) -> Remedy:
    """Return the launch without the user's own MASTER_*: the shim knows an address and a port."""
    return _without(facts, "MASTER_") or edit(facts)


def _the_jobs_tf_config(facts: Facts, _: object) -> Remedy:
    """Return the launch with the TF_CONFIG that the shim makes, and without the user's own."""
    return together([change(tf_config=True), _without(facts, "TF_CONFIG=") or change()])


def _without(facts: Facts, beginning: str) -> Remedy | None:
    """Return the launch without the variables that begin so; None where none was given."""
    given = [str(value) for value in facts.job.typed.values("env")]
    kept = [each for each in given if not each.startswith(beginning)]
    return change(env=kept, leave_out=["env"]) if kept != given else None


KNOWN = (
    # torch.distributed, TensorFlow's workers and Keras
    Row(
        "keras-2",
        r"unexpected keyword argument 'experimental_run_tf_function'"
        r"|'Variable' object has no attribute 'ref'"
        r"|`keras\.optimizers\.legacy` is not supported in Keras 3"
        r"|Argument\(s\) not recognized: \{'(?:lr|decay)'"
        r"|Keras 3 only supports V3|object has no attribute 'fit_generator'",
        OF_KERAS_2,
        KERAS_2,
    ),
    Row(
        "keras-2",
        rf"'{OPTIMIZERS}' object has no attribute "
        r"'(?P<name>lr|decay|get_weights|get_gradients|minimize|_\w+)'",
        OF_KERAS_2 + ": its optimizers have no {name}",
        KERAS_2,
        likely="Keras 2 has it",
        amid="keras|tensorflow",
    ),
    Row(
        "torch-variable-missing",
        r"environment variable (?P<name>\w+) expected, but not set",
        "init_process_group() found no {name}: `runner` sets it for each rank, unless MASTER_* are "
        "given, or the trainer unsets it",
        _the_jobs_own,
    ),
    Row(
        "port-taken",
        r"port: (?P<port>\d+).*EADDRINUSE",
        "the port {port}, MASTER_PORT, is already in use on the node of {who}; without "
        "MASTER_* `runner` picks a free one",
        _the_jobs_own,
    ),
    Row(
        "port-taken",
        r"Ping failed, invalid value returned from server",
        "{who} reached another program at MASTER_ADDR and MASTER_PORT, not rank 0",
        _the_jobs_own,
    ),
    Row(
        "rendezvous-timeout",
        r"[Tt]imed out after (?P<time>\d+) seconds waiting for clients\. "
        r"(?P<came>\d+)/(?P<size>\d+) clients",
        "{came} of {size} ranks joined torch.distributed's rendezvous in {time} s: the "
        "others did not call init_process_group(), used another address, or expect another "
        "number of ranks",
        _the_jobs_own,
        likely=OTHERS_TELL,
    ),
    Row(
        "wrong-master-address",
        r"timed out after \d+ms while trying to connect to \((?P<host>[^,]+), (?P<port>\d+)\)",
        "{who} could not connect to rank 0 at MASTER_ADDR {host}, MASTER_PORT {port}: it "
        "is not on that node, or listens elsewhere",
        _the_jobs_own,
        likely="torch.distributed's store did not answer there; a firewall has the same effect",
    ),
    Row(
        "rendezvous-timeout",
        r"wait timeout after (?P<time>\d+)ms, keys: (?P<key>\S+)",
        "{who} waited {time} ms for another rank in torch.distributed's store ({key}): it ended, "
        "or the ranks disagree on the world size",
        logs,
        likely=OTHERS_TELL,
    ),
    Row(
        "nccl-without-gpu",
        r"Distributed package doesn't have NCCL built in"
        r"|ProcessGroupNCCL is only supported with GPUs",
        'the trainer requests the NCCL backend, and {who} has no GPU: "gloo" is the backend '
        "for CPUs",
    ),
    Row(
        "models-differ",
        r"(?P<what>params\[\d+\] in this process with sizes .*|DDP expects same model .*)",
        "DistributedDataParallel got different models on the ranks: {what}",
    ),
    Row(
        "ranks-differ",
        r"(?P<what>Received data size doesn't match expected size|op\.preamble\.length <= \S+)",
        "the ranks called a torch.distributed collective with tensors of different sizes",
        logs,
        "Gloo compares the sizes, and ends the process",
        words="enforce fail at",
    ),
    Row(
        "collective-timeout",
        r"Watchdog caught collective operation timeout: (?P<what>.*)",
        "{who} timed out waiting for another rank in a collective operation: {what}",
        logs,
        likely=OTHERS_TELL,
        words="Watchdog caught collective",
    ),
    Row(
        "collective-timeout",
        r"Timed out waiting (?P<what>\d+ms) for (?:recv|send) operation"
        r"|failed to pass monitoredBarrier in (?P<time>\d+ ms)",
        "{who} waited {what}{time} for another rank in a collective operation: it is slow, hangs, "
        "or does not call the same operations",
        logs,
        likely=OTHERS_TELL,
    ),
    Row(
        "peer-gone",
        r"gloo/transport/tcp.*Connection (?:closed|reset) by peer",
        "{who} lost its connection to another rank, which left no record of an error: it ended "
        "sooner, as with fewer batches, or its node was lost",
        logs,
        likely="no rank reported more",
    ),
    Row(
        "tf-config",
        r"(?P<what>The `task_id` \d+ exceeds the maximum id of \w+"
        r"|When `cluster_spec` is given, you must also specify `task_type` and `task_id`)",
        "TF_CONFIG is not the one of this job: {what}",
        _the_jobs_tf_config,
    ),
    Row(
        "tf-config",
        r"(?P<what>JSONDecodeError: .*)",
        "TF_CONFIG is not valid JSON: {what}",
        _the_jobs_tf_config,
        amid=r"cluster_resolver|TF_CONFIG",
    ),
    Row(
        "port-taken",
        r"Could not start gRPC server",
        "the port of {who} in TF_CONFIG is already in use on its node",
        _the_jobs_tf_config,
        likely="TensorFlow's server could not listen",
    ),
    Row(
        "workers-missing",
        r"(?:DEADLINE_EXCEEDED|DeadlineExceeded\w*|UNAVAILABLE|UnavailableError)\b.*"
        r"(?P<what>Barrier timed out|CoordinationService|failed to connect to all addresses"
        r"|[Rr]ecvTensor|Connecting to)",
        "{who} timed out waiting for another worker of TF_CONFIG ({what}): it did not start, or is "
        "not at the address that is given there",
        _the_jobs_tf_config,
        likely=OTHERS_TELL,
    ),
    Row(  # Horovod 0.28.1 on CPUs, built without F16C
        "adasum-type",
        r"Unsupported data type\.",
        "Horovod's Adasum does not support this data type: float16 on CPUs needs F16C",
        advice("leave out --fp16-allreduce or --adasum"),
    ),
    # CUDA, Horovod, Python and the system
    Row(
        "no-gpu",
        r"Torch not compiled with CUDA enabled",
        "the image {image} is CPU-only, and the trainer uses a GPU",
        change(image="horovod_gpu.sif", gpus_per_node="1"),
    ),
    Row(
        "torchvision-operators",
        r"Couldn't load (?:custom C\+\+ ops|the image extension)",
        "the trainer needs a compiled operator of torchvision, and {image} has torchvision without "
        "them: the error's advice about versions is misleading",
        advice("docs/concepts/images.md, What scripts import; the GPU image has them"),
    ),
    Row(
        "no-gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device"
        r"|CUDA_ERROR_NO_DEVICE",
        "{who} sees no GPU: the job requested none, or the driver is not in the container",
        change(nv=True, gpus_per_node="1"),
    ),
    Row(
        "no-such-gpu",
        r"invalid device ordinal",
        "{who} selects a GPU that does not exist: more ranks than GPUs",
        change(ntasks_per_node=1),
        likely="CUDA reports it; selected by local rank, each rank of a node gets its own",
    ),
    Row(
        "gpu-memory",
        r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemoryError|OOM when alloc",
        "{who} ran out of GPU memory",
        lambda facts, _: smaller_batch(facts) or change(arguments={"--batch-size": 16}),
    ),
    # Which of its many reasons it was
    Row(
        "nccl",
        r"NCCL [Ee]rror|nccl(?:System|Internal|UnhandledCuda|Remote|InvalidUsage)Error",
        "NCCL failed on {who}: {error}",
        change(env="NCCL_DEBUG=INFO"),
        likely="NCCL reports only that it failed; its own log says why",
    ),
    # Lightning 2.0 took it out
    Row(
        "no-horovod-strategy",
        r"cannot import name 'HorovodStrategy' from '(?:pytorch_)?lightning",
        "Lightning 2 removed HorovodStrategy; there is one in the trainer that "
        "`runner recipes copy lightning_mnist` writes",
    ),
    Row(
        "ranks-differ",
        r"(?P<what>Mismatched \w+ .*)",
        "the ranks gave Horovod different tensors under one name: {what}",
        because=COMPARED,
    ),
    Row(
        "duplicate-name",
        r"Duplicate tensor name (?P<name>\S+)",
        "{who} used the name {name} for two operations at once",
        because="Horovod reports it",
    ),
    Row(
        "duplicate-name",
        r"with the same name as another tensor",
        "{who} used one name for two operations at once",
        because="Horovod reports it",
    ),
    Row(
        "syntax-error",
        r"(?:SyntaxError|IndentationError|TabError): (?P<what>.*)",
        "the trainer has a syntax error: {what}",
    ),
    Row(
        "too-many-open-files",
        r"Too many open files",
        "{who} has more files open than the limit (ulimit -n) allows",
        lambda facts, _: on_node(facts, "bash", "-c", "ulimit -n; ulimit -Hn"),
    ),
    # torch's words have the number; they stand above
    Row(
        "port-taken",
        r"[Aa]ddress already in use|EADDRINUSE",
        "{who} listens on a port that is already in use: by another rank on its node, as "
        "when each starts the same server, or by another job",
        lambda facts, _: on_node(facts, "ss", "-ltnp"),
    ),
    Row(  # told apart from the kernel's killing a rank
        "memory-refused",
        r"^(?!.*CUDA).*(?:MemoryError|can't allocate memory|Cannot allocate memory|bad_alloc)",
        "{who} could not allocate memory: {error}",
        lambda facts, _: smaller_batch(facts) or edit(facts),
    ),
)
SIGNATURES = signatures(KNOWN, in_own_code)
