"""Errors in the ranks' own words, as PyTorch 2.13, TensorFlow 2.21 and Horovod 0.28.1 had them."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.command_line import Given
from runners.explain.judge import explain
from runners.injob.rank import problems

from ..failures import leave
from .test_facts import FAILED, explained, made

TRACEBACK = "Traceback (most recent call last):"
GLOO = "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
ENV = "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
KERAS_DATA = (
    "Exception: URL fetch failure on https://data.example.org/tf-keras-datasets/mnist.npz: None -- "
    "[Errno -3] Temporary failure in name resolution"
)
ERRORS = [
    (
        "ImportError: cannot import name 'HorovodStrategy' from 'lightning.pytorch.strategies'",
        "no-horovod-strategy",
        "lightning_mnist",
    ),
    (
        "TypeError: Trainer.compile() got an unexpected keyword argument "
        "'experimental_run_tf_function'",
        "keras-2",
        "Keras 2",
    ),
    (
        "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and "
        "torchvision versions are incompatible",
        "torchvision-operators",
        "has torchvision without them",
    ),
    ("AttributeError: 'Variable' object has no attribute 'ref'", "keras-2", "Keras 2"),
    ("ValueError: Argument(s) not recognized: {'lr': 0.1}", "keras-2", "Keras 2"),
    (
        "ImportError: `keras.optimizers.legacy` is not supported in Keras 3. When using",
        "keras-2",
        "Keras 2",
    ),
    (
        "ValueError: File format not supported: filepath=/tmp/sm. Keras 3 only supports V3",
        "keras-2",
        "Keras 2",
    ),
    ("AttributeError: 'Sequential' object has no attribute 'fit_generator'", "keras-2", "Keras 2"),
    (
        "DistNetworkError: Ping failed, invalid value returned from server. Expected: 18456",
        "not-rank-0",
        "another program at MASTER_ADDR and MASTER_PORT, not rank 0",
    ),
    (f"{ENV}variable RANK expected, but not set", "torch-variable-missing", "no RANK"),
    (f"{ENV}variable MASTER_ADDR expected, but not set", "torch-variable-missing", "MASTER_ADDR"),
    (
        "DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29613, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "port-taken",
        "port 29613",
    ),
    (
        "DistStoreError: Timed out after 7 seconds waiting for clients. 1/2 clients joined.",
        "rendezvous-timeout",
        "1 of 2 ranks joined",
    ),
    (
        "DistStoreError: wait timeout after 6000ms, keys: /default_pg/0//cpu//0/0",
        "store-wait-timeout",
        "disagree on the world size",
    ),
    (
        "DistNetworkError: The client socket has timed out after 6000ms while trying to connect "
        "to (nowhere.example, 29612).",
        "wrong-master-address",
        "MASTER_ADDR nowhere.example, MASTER_PORT 29612",
    ),
    (
        "RuntimeError: Distributed package doesn't have NCCL built in",
        "nccl-without-gpu",
        "is for GPUs (NCCL)",
    ),
    (
        "RuntimeError: [1]: params[0] in this process with sizes [2, 4] appears not to match sizes "
        "of the same param in process 0.",
        "models-differ",
        "sizes [2, 4]",
    ),
    (
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 2 params, while "
        "rank 1 has inconsistent 4 params.",
        "models-differ",
        "inconsistent 4 params",
    ),
    (
        f"{GLOO}unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete",
        "collective-timeout-gloo",
        "waited 6000ms for another rank",
    ),
    (
        "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 6000 ms",
        "monitored-barrier",
        "waited 6000 ms for another rank",
    ),
    (
        f"{GLOO}pair.cc:537] Read error [127.0.0.1]:13528: Connection reset by peer. This is "
        "typically caused by a remote worker hanging or bugs in the application.",
        "peer-gone",
        "lost its connection",
    ),
    (
        "ValueError: The `task_id` 5 exceeds the maximum id of worker.",
        "tf-config",
        "exceeds the maximum id",
    ),
    (
        "ValueError: When `cluster_spec` is given, you must also specify `task_type` and "
        "`task_id`.",
        "tf-config",
        "you must also specify",
    ),
    ("UnknownError: Could not start gRPC server", "tf-port-taken", "TF_CONFIG"),
    ("HorovodInternalError: Unsupported data type.", "adasum-type", "float16"),
    ("SyntaxError: invalid syntax", "syntax-error", "has a syntax error"),
    (KERAS_DATA, "no-network", "tried to reach another machine"),
    (
        "ValueError: only one element tensors can be converted to Python scalars",
        "not-one-number",
        "list of tensors",
    ),
]


@pytest.mark.parametrize(("error", "name", "cause"), ERRORS)
def test_an_error_has_its_cause(tmp_path: Path, error: str, name: str, cause: str) -> None:
    said = explained(tmp_path, "", (0, 1.0, error))
    assert said.id == name, said
    assert cause in said.what, said
    assert said.fix
    if error == KERAS_DATA:
        assert "Keras keeps it in ~/.keras" in str(said.fix)
    if name == "keras-2":
        assert str(said.fix).startswith("--env TF_USE_LEGACY_KERAS=1")


def test_words_of_other_programs_are_shown_as_they_are(tmp_path: Path) -> None:
    said = explained(tmp_path, "", (0, 1.0, "SyntaxError: {who} {0} \\1 %s"))
    assert "{who} {0} \\1 %s" in said.what


@pytest.mark.parametrize(
    ("imports", "given", "fix"),
    [
        ("import tensorflow as tf", "A=1", "--env TF_USE_LEGACY_KERAS=1"),
        ("import keras", "A=1", "${EDITOR:-vi} +2 "),
        ("from keras import layers", "TF_USE_LEGACY_KERAS=1", "${EDITOR:-vi} +2 "),
        ("import tf_keras as keras", "TF_USE_LEGACY_KERAS=1", "A script of `tf.keras` takes"),
    ],
)
def test_keras_2_is_offered_as_the_script_imports_it(
    tmp_path: Path, imports: str, given: str, fix: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os\n{imports}\n")
    error = "AttributeError: 'Sequential' object has no attribute 'fit_generator'"
    log = f'0@n0 | {TRACEBACK}\n0@n0 |   File "{script}", line 2, in <module>\n0@n0 | {error}\n'
    paths, job = made(tmp_path, log, (0, 1.0, error))
    typed = replace(job.typed, settings=(*job.typed.settings, Given("env", given)))
    said = explain(paths, replace(job, typed=typed), FAILED)
    assert said.id == "keras-2"
    assert str(said.fix).startswith(fix), said.fix


def test_keras_2_is_offered_for_an_optimizer_of_keras_only(tmp_path: Path) -> None:
    error = (0, 1.0, "AttributeError: 'SGD' object has no attribute 'lr'")
    assert explained(tmp_path / "torch", "0@n0 | opt.lr\n", error).id == "attribute-missing"
    log = f'0@n0 | {TRACEBACK}\n0@n0 |   File "/x/horovod/_keras/callbacks.py"\n0@n0 | {error[2]}\n'
    said = explained(tmp_path / "keras", log, error)
    assert (said.id, said.certainty.value) == ("keras-2-optimizer", "likely")


def test_no_json_is_tf_configs_only_where_tensorflow_reads_it(tmp_path: Path) -> None:
    error = (0, 1.0, "JSONDecodeError: Expecting property name: line 1 column 2 (char 1)")
    assert explained(tmp_path / "own", "", error).id == "json-not-read"
    file = "/x/cluster_resolver/tfconfig_cluster_resolver.py"
    log = f'0@n0 | {TRACEBACK}\n0@n0 |   File "{file}", line 40\n0@n0 | {error[2]}\n'
    assert explained(tmp_path / "tf", log, error).id == "tf-config-json"


def test_the_users_own_address_is_left_out(tmp_path: Path) -> None:
    error = "DistStoreError: Timed out after 7 seconds waiting for clients. 1/2 clients joined."
    paths, job = made(tmp_path, "", (0, 1.0, error))
    given = tuple(Given("env", text) for text in ("A=1", "MASTER_ADDR=n9", "MASTER_PORT=1"))
    typed = replace(job.typed, settings=(*job.typed.settings, *given))
    fix = explain(paths, replace(job, typed=typed), FAILED).fix
    assert fix is not None
    assert fix.leave_out == ("env",)
    assert str(fix).startswith("--env A=1")
    assert "MASTER" not in str(fix)


def test_within_a_function_of_tensorflow_the_error_itself_counts(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    lines = [
        "AttributeError: in user code:",
        '    File "/w/t.py", line 8, in step  *',
        "        g = tape.gradient(loss, v)",
        "    AttributeError: 'Variable' object has no attribute 'ref'",
        "",
    ]
    error = AttributeError("in user code:\n\n    File ...")
    leave(paths, 0, 1.0, problems.of_exception(1, error, lines))
    said = explain(paths, job, FAILED)
    assert said.id == "keras-2", said
    assert said.traceback[0] == lines[0]


@pytest.mark.parametrize(
    ("place", "fetch"),
    [
        ("https://data.example.org/mnist/", "--data mnist"),
        ("http://fashion-mnist.example.org/", "--data fashion-mnist"),
        ("https://data.example.org/flowers/", "download it here"),
    ],
)
def test_what_torchvision_could_not_download_is_fetched_before(
    tmp_path: Path, place: str, fetch: str
) -> None:
    paths, job = made(tmp_path, f"0@n0 | Tried {place}, got:\n")
    first = "Error downloading train-images-idx3-ubyte.gz:"
    reason = "<urlopen error [Errno -3] Temporary failure in name resolution>"
    lines = ["Traceback (most recent call last):", f"RuntimeError: {first}"]
    lines += [f"Tried {place}, got:", reason, ""]
    leave(paths, 0, 1.0, problems.of_exception(1, RuntimeError(first), lines))
    said = explain(paths, job, FAILED)
    assert said.id == "no-network", said
    assert fetch in str(said.fix), said


def test_a_machine_that_is_called_like_a_dataset_is_none(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    error = OSError("[Errno -2] Name or service not known: 'mnist-node-1'")
    leave(paths, 0, 1.0, problems.of_exception(1, error, ["Traceback", f"OSError: {error}"]))
    said = explain(paths, job, FAILED)
    assert said.id == "no-network", said
    assert "--data" not in str(said.fix), said


TORCHRUN = """\
0@n0 | Traceback (most recent call last):
0@n0 |   File "/w/child.py", line 3, in <module>
0@n0 |     raise ValueError('boom')
0@n0 | {worker}ValueError: boom
0@n0 | E1123 08:01:44.647000 9029 torch/distributed/elastic/multiprocessing/api.py:1002] failed
0@n0 | torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n\
0@n0 | ============================================================
0@n0 | Root Cause (first observed failure):
0@n0 |   error_file: <N/A>
"""
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"


@pytest.mark.parametrize("worker", ["", "[rank0]: "])
@pytest.mark.parametrize("last", [CHILD, ""])
def test_below_torchrun_the_ranks_own_error_counts(tmp_path: Path, worker: str, last: str) -> None:
    paths, job = made(tmp_path, TORCHRUN.format(worker=worker))
    leave(paths, 0, 1.0, problems.of_process(1, [last]))
    said = explain(paths, job, FAILED)
    assert "ValueError: boom" in said.what, said
    assert "ChildFailedError" not in said.what
    assert "+3 /w/child.py" in str(said.fix), said


def test_below_torchrun_the_rank_that_only_lost_another_is_not_the_cause(tmp_path: Path) -> None:
    lost = f"0@n0 | [rank1]: {GLOO}pair.cc:553] Connection closed by peer [127.0.0.1]:10668.\n"
    head, child, rest = TORCHRUN.format(worker="").partition("0@n0 | torch.distributed")
    paths, job = made(tmp_path, head + lost + child + rest)
    leave(paths, 0, 1.0, problems.of_process(1, [CHILD]))
    said = explain(paths, job, FAILED)
    assert (said.id, "ValueError: boom" in said.what) == ("rank-exception", True), said


def test_below_accelerate_the_programs_own_error_counts(tmp_path: Path) -> None:
    text = "0@n0 | KeyError: 'weights'\n0@n0 | Traceback (most recent call last):\n"
    paths, job = made(tmp_path, text)
    top = "subprocess.CalledProcessError: Command '['python3', 'x.py']' returned non-zero"
    leave(paths, 0, 1.0, problems.of_process(1, [top]))
    assert "KeyError: 'weights'" in explain(paths, job, FAILED).what


def test_what_ends_a_rank_by_a_signal_is_read_in_the_log(tmp_path: Path) -> None:
    text = (
        "0@n0 | terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
        "0@n0 |   what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. "
        "Received data size doesn't match expected size. Is there a mismatch in your code?\n"
    )
    paths, job = made(tmp_path, text)
    leave(paths, 0, 1.0, problems.of_process(134, []), 134)
    said = explain(paths, job, FAILED)
    assert (said.id, said.certainty.value) == ("tensor-sizes-differ", "certain")
    assert any("8 vs 4" in line for line in said.evidence_lines)


def test_a_thread_that_outlives_the_program_is_told_as_that(tmp_path: Path) -> None:
    text = "0@n0 | ranks 2 sum 2\n0@n0 | terminate called without an active exception\n"
    paths, job = made(tmp_path, text)
    leave(paths, 0, 1.0, problems.of_process(128 + signal.SIGABRT, []))
    said = explain(paths, job, FAILED)
    assert said.id == "thread-left", said
    assert "destroy_process_group()" in str(said.fix)


@pytest.mark.parametrize(
    "before",
    [
        "0: ",
        "[default1]:",
        "[n1:0]:",
        "(Worker pid=42) ",
        "10.0.0.4: ",
        "2026-01-01T00:00:0{}.5Z ",
        "bar\r",
    ],
)
def test_what_stands_before_each_line_hides_no_error(tmp_path: Path, before: str) -> None:
    """srun --label, torchrun, Ray, pdsh, a collector of logs; a progress bar drawn again."""
    error = "ValueError: Default process group has not been initialized, please call it."
    lines = [TRACEBACK, '  File "/w/t.py", line 3, in <module>', "    dist.barrier()", error]
    told = [before.format(number) + line for number, line in enumerate(lines)]
    paths, job = made(tmp_path, "".join(f"0@n0 | {line}\n" for line in told))
    leave(paths, 0, 1.0, problems.of_process(1, told))
    assert explain(paths, job, FAILED).id == "no-process-group"


def test_an_assertion_without_words_is_told_by_its_condition(tmp_path: Path) -> None:
    lines = [TRACEBACK, '  File "t.py", line 2, in f', "    assert batch % size == 0"]
    paths, job = made(tmp_path, "")
    leave(paths, 0, 1.0, problems.of_exception(1, AssertionError(), [*lines, "AssertionError"]))
    why = explain(paths, job, FAILED)
    assert (why.id, "batch % size == 0" in why.what) == ("assertion", True), why


CHAIN = "\nDuring handling of the above exception, another exception occurred:\n\n"
JAX = "RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found for"
BUSY = (
    "W external/xla/xla/service/platform_util.cc:199] unable to create StreamExecutor for CUDA:0: "
)


# Lines of public logs, shortened, that were told another cause
PUBLIC = {
    "miopen-failed": 'what():  boost: No such file or directory: "/home/u/.config/miopen//g.udb"',
    "ompi-gave-up": f"{'-' * 74}\nmpirun was unable to find the specified executable file, and\n"
    f"Node:       n1\nExecutable: -mca\n{'-' * 74}\n",
    "nccl-cuda-oom": "n1:1:2 [0] NCCL WARN a: Connection closed by remote peer n2<4>\n"
    "n1:1:3 [1] NCCL WARN Cuda failure 'out of memory'\n"
    "n1:1:3 [1] NCCL WARN [Proxy Service 1] Failed to execute operation Setup from rank 1",
    "nccl-says": "n1:1:2 [0] NCCL WARN Error : ring 0 does not loop back to start (9 != 0)",
    "lightning-gpu-numbers": "a.MisconfigurationException: \n    You requested GPUs: [0, 1]\n"
    "    But your machine only has: [0]\n",
    "tls-unknown-authority": "HTTP Error 403: Forbidden\nFailed to download (trying next):\n"
    "<urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get "
    "local issuer certificate (_ssl.c:1002)>\nRuntimeError: Error downloading train-images.gz",
    "horovod-shut-down": "a.errors_impl.UnknownError: Horovod has been shut down. This was caused "
    "by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a "
    "tensor after one of the ranks finished. If by an exception, you should see it in the log",
    "container-failed": "FATAL:   While performing build: packer failed to pack: while "
    "unpacking tmpfs: error unpacking rootfs: unpack rootfs: config blob is not correct mediatype",
    "cuda-device-busy": f"{BUSY}CUDA-capable device(s) is/are busy or unavailable\n{JAX} x",
    "jax-no-gpu": f"{BUSY}CUDA_ERROR_INVALID_DEVICE: invalid device ordinal\n{JAX} x",
    "collectives-differ": f'{TRACEBACK}\n  File "/x/u.py", line 1, in f\n_pickle.UnpicklingError: '
    f"invalid load key, 'k'.\n{CHAIN}{TRACEBACK}\n  File \"/x/u.py\", line 2, in f\nException: "
    "all_list requires all workers to enter the function together, so this error\n",
    "race-delete": f'{TRACEBACK}\n  File "/x/stream.py", line 317, in f\n    os.remove(a)\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/c/shard.00085.mds.zstd'\n",
    "nccl-duplicate-gpu": "[E socket.cpp:472] [c10d] The server socket has failed to listen on any "
    f"local network address.\n{TRACEBACK}\n"
    "torch.distributed.DistBackendError: NCCL error in: a.cpp:1, invalid usage\nLast error:\n"
    "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 21000",
    "oneccl": "(1) |CCL_ERROR| atl_ofi_helper.cpp:1204 atl_ofi_prov_init: fi_scalable_ep(a)\n"
    " fails with ret: -12, strerror: Cannot allocate memory\n"
    "(1) |CCL_ERROR| atl_ofi.cpp:237 init: can't find suitable provider",
    "cancelled-in-log": "slurmstepd: error: *** JOB 608 ON n1 CANCELLED AT 2022-08-12T02:06:12 DUE "
    "TO JOB REQUEUE ***\nslurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused",
    "cuda-initialization": "RuntimeError: Caught RuntimeError in DataLoader worker process 2.\n"
    f'Original {TRACEBACK}\n  File "/x/worker.py", line 178, in _worker_loop\n'
    "RuntimeError: cuda runtime error (3) : initialization error at THCGeneral.cpp:50",
    "import-leak": f'{TRACEBACK}\n  File "/home/u/.local/lib/python3.7/site-packages/scanpy/'
    "__init__.py\", line 3, in <module>\nModuleNotFoundError: No module named 'packaging'",
    "checkpoint-into-size-1": "RuntimeError: Error(s) in loading state_dict for M:\n"
    "\tsize mismatch for l.weight: copying a param with shape torch.Size([2, 32]) from checkpoint, "
    "the shape in current model is torch.Size([1]).",
    "crashed-below": "zsh: illegal hardware instruction  python",
    "hydra-unknown-option": "/bin/sh: numactl: command not found\n"
    "[mpiexec@n1] match_arg (hydra_arg.c:91): unrecognized argument x",
}


@pytest.mark.parametrize(("log", "name"), [*((log, name) for name, log in PUBLIC.items())])
def test_public_logs_that_were_told_another_cause(tmp_path: Path, log: str, name: str) -> None:
    assert explained(tmp_path, log).id == name


def test_the_deepest_line_of_mpich_s_stack_is_told(tmp_path: Path) -> None:
    log = (
        "Fatal error in PMPI_Finalize:\nInternal MPI error!, error stack:\nMPI_Finalize(234).:\n"
        "MPID_Finalize(9).: failed\nMPIDI_x(1059): [ch3:sock] rank 2 unable to connect to rank 3"
    )
    why = explained(tmp_path, log)
    assert (why.id, "rank 2 unable to connect" in why.what) == ("mpi-abort", True), why
