"""Errors of torch.distributed, TensorFlow's workers and Keras, in the ranks' own words: a table.

The words are those of PyTorch 2.13 and TensorFlow 2.21 with Keras 3.
"""

from __future__ import annotations

from ..core.remedy import Remedy, advice, change, together
from .facts import Facts
from .finding_helpers import edit, logs
from .table import Row, in_own_code, signatures

OPTIMIZERS = r"(?:SGD|Adam\w*|RMSprop|Ftrl|Nadam|Lion|Adagrad|Adadelta)"
OF_KERAS_2 = "the trainer is written for Keras 2, and TensorFlow takes Keras 3 unless it is told"
KERAS_2 = change(env=["TF_USE_LEGACY_KERAS=1"])
OTHERS_TELL = "those it waited for tell more, in their own lines"


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
        "Keras 2 has it",
        sure=False,
        amid="keras|tensorflow",
    ),
    Row(
        "torch-variable-missing",
        r"environment variable (?P<name>\w+) expected, but not set",
        "init_process_group() found no {name}: `runner` sets it for each rank, unless MASTER_* are "
        "given, or the trainer takes it away",
        _the_jobs_own,
    ),
    Row(
        "port-taken",
        r"port: (?P<port>\d+).*EADDRINUSE",
        "the port {port}, MASTER_PORT, is taken on the node of {who}; without MASTER_* `runner` "
        "finds a free one",
        _the_jobs_own,
    ),
    Row(
        "port-taken",
        r"Ping failed, invalid value returned from server",
        "what {who} met at MASTER_ADDR and MASTER_PORT is another program, and not rank 0",
        _the_jobs_own,
    ),
    Row(
        "rendezvous-timeout",
        r"[Tt]imed out after (?P<time>\d+) seconds waiting for clients\. "
        r"(?P<came>\d+)/(?P<size>\d+) clients",
        "{came} of {size} ranks met for torch.distributed in {time} s: the others did not call "
        "init_process_group(), went to another address, or expect another number of ranks",
        _the_jobs_own,
        OTHERS_TELL,
        sure=False,
    ),
    Row(
        "wrong-master-address",
        r"timed out after \d+ms while trying to connect to \((?P<host>[^,]+), (?P<port>\d+)\)",
        "{who} found no rank 0 at MASTER_ADDR {host}, MASTER_PORT {port}: it is not on that node, "
        "or listens elsewhere",
        _the_jobs_own,
        "torch.distributed's store answered nothing there; a firewall looks the same",
        sure=False,
    ),
    Row(
        "rendezvous-timeout",
        r"wait timeout after (?P<time>\d+)ms, keys: (?P<key>\S+)",
        "{who} waited {time} ms for another rank in torch.distributed's store ({key}): it ended, "
        "or the ranks disagree on how many they are",
        logs,
        OTHERS_TELL,
        sure=False,
    ),
    Row(
        "nccl-without-gpu",
        r"Distributed package doesn't have NCCL built in"
        r"|ProcessGroupNCCL is only supported with GPUs",
        'the trainer asks torch.distributed for NCCL, and {who} has no GPU: "gloo" is the backend '
        "for CPUs",
    ),
    Row(
        "models-differ",
        r"(?P<what>params\[\d+\] in this process with sizes .*|DDP expects same model .*)",
        "the ranks gave DistributedDataParallel unlike models: {what}",
    ),
    Row(
        "ranks-differ",
        r"(?P<what>Received data size doesn't match expected size|op\.preamble\.length <= \S+)",
        "the ranks gave one collective operation of torch.distributed tensors of unlike sizes",
        logs,
        "Gloo compares the sizes, and ends the process",
        words="enforce fail at",
    ),
    Row(
        "collective-timeout",
        r"Watchdog caught collective operation timeout: (?P<what>.*)",
        "{who} waited in vain for another rank in a collective operation: {what}",
        logs,
        OTHERS_TELL,
        sure=False,
        words="Watchdog caught collective",
    ),
    Row(
        "collective-timeout",
        r"Timed out waiting (?P<what>\d+ms) for (?:recv|send) operation"
        r"|failed to pass monitoredBarrier in (?P<time>\d+ ms)",
        "{who} waited {what}{time} for another rank in a collective operation: it is slow, hangs, "
        "or does not call the same operations",
        logs,
        OTHERS_TELL,
        sure=False,
    ),
    Row(
        "peer-gone",
        r"gloo/transport/tcp.*Connection (?:closed|reset) by peer",
        "{who} lost its connection to another rank, which left no record of an error: it ended "
        "sooner, as with fewer batches, or its node was lost",
        logs,
        "no rank says more",
        sure=False,
    ),
    Row(
        "tf-config",
        r"(?P<what>The `task_id` \d+ exceeds the maximum id of \w+"
        r"|When `cluster_spec` is given, you must also specify `task_type` and `task_id`)",
        "TF_CONFIG is not the job's: {what}",
        _the_jobs_tf_config,
    ),
    Row(
        "tf-config",
        r"(?P<what>JSONDecodeError: .*)",
        "TF_CONFIG is no JSON: {what}",
        _the_jobs_tf_config,
        amid=r"cluster_resolver|TF_CONFIG",
    ),
    Row(
        "port-taken",
        r"Could not start gRPC server",
        "the port that TF_CONFIG has for {who} is taken on its node",
        _the_jobs_tf_config,
        "TensorFlow's server could not listen",
        sure=False,
    ),
    Row(
        "workers-missing",
        r"(?:DEADLINE_EXCEEDED|DeadlineExceeded\w*|UNAVAILABLE|UnavailableError)\b.*"
        r"(?P<what>Barrier timed out|CoordinationService|failed to connect to all addresses"
        r"|[Rr]ecvTensor|Connecting to)",
        "{who} waited in vain for another worker of TF_CONFIG ({what}): it did not start, or is "
        "not at the address that is given there",
        _the_jobs_tf_config,
        OTHERS_TELL,
        sure=False,
    ),
    Row(  # Horovod 0.28.1 on CPUs, built without F16C
        "adasum-type",
        r"Unsupported data type\.",
        "Horovod's Adasum cannot add up numbers of this type: 16-bit ones on CPUs need F16C",
        advice("leave out --fp16-allreduce or --adasum"),
    ),
)
SIGNATURES = signatures(KNOWN, in_own_code)
