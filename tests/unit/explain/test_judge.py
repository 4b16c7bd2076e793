"""What `explain` once said with too much certainty, or of the wrong rank, file or option."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runners.contract import failure_kinds as kinds
from runners.contract.log_text import OF_A_TYPE
from runners.core.command_line import Given
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import Resources, SchedulerName
from runners.core.trainer import Trainer
from runners.explain.judge import explain
from runners.injob.rank import problems
from runners.injob.rank.problems import Problem
from runners.jobs import job_status

from ..failures import leave
from .test_facts import FAILED, OWN, RECIPE, explained, launched, made, planned

SRUN = "srun: error: n3: task 0: Exited with exit code {code}\n"


@pytest.mark.parametrize(
    ("log", "name", "certainty", "fixed_by", "said", "never"),
    [
        (
            "FATAL:   container creation failed: mount /proc/self/fd/3->/x/rootfs error: while "
            "mounting image /proc/self/fd/3: squashfuse_ll exited with status 1: fusermount3: "
            "mount failed: Operation not permitted\n",
            "fuse-not-permitted",
            "certain",
            "administrator",
            "FUSE mounts are not permitted",
            "damaged",
        ),
        (
            "slurmstepd: error: execve(): apptainer: No such file or directory\n",
            "runtime-missing",
            "likely",
            "you",
            "--export=NONE",
            "there is no apptainer",
        ),
        (
            "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x0F.\n"
            "srun: error: Task launch for StepId=42.0 failed on node n3: Unable to satisfy cpu "
            "bind request\n",
            "srun-cpu-bind",
            "certain",
            "you",
            "SLURM_CPU_BIND",
            "--exclude",
        ),
    ],
)
def test_lines_of_slurm_and_the_runtime(
    tmp_path: Path, log: str, name: str, certainty: str, fixed_by: str, said: str, never: str
) -> None:
    why = explained(tmp_path, log + SRUN.format(code=1))
    text = " ".join((why.what, *why.steps, str(why.fix)))
    assert (why.id, why.certainty.value, why.fixed_by) == (name, certainty, fixed_by), why
    assert said in text
    assert never not in text
    assert bool(why.tell) == (fixed_by == "administrator")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            "DistNetworkError: The client socket has failed to connect to any network address of "
            "(n1, 29500). The client socket has failed to connect to n1:29500 (errno: 111 - "
            "Connection refused).",
            "c10d-refused",
        ),
        (
            "DistNetworkError: The IPv6 network addresses of (n1, 29500) cannot be retrieved (gai "
            "error: -2 - Name or service not known).",
            "c10d-unresolved",
        ),
    ],
)
def test_rank_0_is_not_the_internet(tmp_path: Path, error: str, name: str) -> None:
    why = explained(tmp_path, "", (1, 1.0, error))
    assert why.id == name, why
    assert "MASTER_ADDR" in " ".join(why.steps)
    assert "internet" not in f"{why.what} {why.because}"


TORCHRUN = """\
0@n1 | [rank3]: Traceback (most recent call last):
0@n1 | [rank3]:   File "/w/train.py", line 7, in <module>
0@n1 | [rank3]:     raise KeyError('weights')
0@n1 | [rank3]: KeyError: 'weights'
0@n1 | [rank2]: Traceback (most recent call last):
0@n1 | [rank2]:   File "/w/train.py", line 9, in <module>
0@n1 | [rank2]: RuntimeError: [/x/gloo/transport/tcp/pair.cc:537] Connection closed by peer
0@n1 | Traceback (most recent call last):
0@n1 |   File "/opt/venv/bin/torchrun", line 8, in <module>
0@n1 |     sys.exit(main())
0@n1 | torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
0@n1 | ============================================================
0@n1 | Root Cause (first observed failure):
0@n1 | [0]:
0@n1 |   time      : 2026-11-26_10:00:00
0@n1 |   host      : n1
0@n1 |   rank      : 3 (local_rank: 1)
0@n1 |   exitcode  : 1 (pid: 4242)
"""


def test_below_torchrun_it_is_the_worker_and_its_file(tmp_path: Path) -> None:
    paths, job = made(tmp_path, TORCHRUN)
    child = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    leave(paths, 0, 1.0, problems.of_process(1, [child]), host="n1")
    why = explain(paths, job, FAILED)
    assert (why.rank, why.host, why.who) == (3, "n1", "rank 3@n1"), why
    assert "rank 3@n1 ended with KeyError: 'weights'" in why.what
    assert why.certainty.value == "certain"
    assert "+7 /w/train.py" in str(why.fix)


def test_below_torchrun_the_reason_of_nccl_is_found_too(tmp_path: Path) -> None:
    error = (
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system\n"
        "0@n1 | [rank3]: ncclSystemError: System call (e.g. socket, malloc) failed.\n"
        "0@n1 | [rank3]: Last error:\n"
        "0@n1 | [rank3]: Bootstrap : no socket interface found"
    )
    other = "0@n1 | [rank2]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    log = other + TORCHRUN.replace("KeyError: 'weights'\n", error + "\n")
    paths, job = made(tmp_path, log)
    child = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    leave(paths, 0, 1.0, problems.of_process(1, [child]), host="n1")
    why = explain(paths, job, FAILED)
    assert (why.id, why.rank) == ("nccl-no-interface", 3), why


def test_an_editor_opens_no_file_that_tensorflow_made(tmp_path: Path) -> None:
    log = (
        '0@n0 |   File "/w/train.py", line 9, in <module>\n'
        '0@n0 |   File "/tmp/__autograph_generated_file4x1.py", line 12, in tf__step\n'
        "0@n0 | ValueError: boom\n"
    )
    assert "+9 /w/train.py" in str(explained(tmp_path, log, (0, 1.0, "ValueError: boom")).fix)


@pytest.mark.parametrize(
    ("due", "name"),
    [("", "cancelled"), (" DUE TO TIME LIMIT", "time-limit"), (" DUE TO PREEMPTION", "preempted")],
)
def test_a_job_that_slurm_is_ending_is_not_one_that_crashed(
    tmp_path: Path, due: str, name: str
) -> None:
    log = f"slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2026-11-26T10:00:00{due} ***\n"
    paths, job = made(tmp_path, log)
    leave(paths, 0, 1.0, problems.of_process(135, []), 135)
    assert explain(paths, job, Status(JobState.RUNNING)).id == name
    paths.log.write_text("slurmstepd: error: *** STEP 42.0 ON n1 CANCELLED AT 2026-11-26 ***\n")
    assert explain(paths, job, Status(JobState.RUNNING)).id == "rank-crashed"


@pytest.mark.parametrize(("trainer", "offered"), [(OWN, False), (RECIPE, True)])
def test_requeue_is_offered_to_what_saves(tmp_path: Path, trainer: Trainer, offered: bool) -> None:
    paths, job = made(tmp_path, "")
    planned(paths, resources=Resources(time="00:10:00"), trainer=trainer)
    limit = explain(paths, job, Status(JobState.TIMEOUT))
    assert str(limit.fix) == "--time 00:20:00"
    assert bool(limit.others) == offered
    planned(paths, trainer=trainer)
    without = explain(paths, job, Status(JobState.TIMEOUT))
    preempted = explain(paths, job, Status(JobState.PREEMPTED))
    assert [("--requeue" in str(why.fix)) for why in (without, preempted)] == [offered] * 2


def test_a_second_start_of_mpi_is_not_pmixs_fault(tmp_path: Path) -> None:
    log = (
        "0@n0 | *** The MPI_Init_thread() function was called after MPI_FINALIZE was invoked.\n"
        "0@n0 | *** This is disallowed by the MPI standard.\n"
        "0@n0 | [n0:1] *** An error occurred in MPI_Init_thread\n"
    )
    paths, job = made(tmp_path, log)
    planned(paths)
    leave(paths, 0, 1.0, Problem(kinds.IN_INIT, "it exited in hvd.init()"), 82)
    why = explain(paths, job, FAILED)
    assert (why.id, why.certainty.value, why.fixed_by) == (
        "horovod-init-again",
        "certain",
        "author",
    )


def test_a_run_whose_folder_is_gone_has_not_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = made(tmp_path, "")
    job.save(paths)
    answer = {job.id: Status(JobState.COMPLETED)}
    monkeypatch.setattr(job_status, "_ask", lambda name, runs: answer if runs else {})
    assert job_status.status(paths, replace(job, host="")).state == JobState.COMPLETED
    shutil.rmtree(paths.root)
    status = job_status.status(paths, replace(job, host=""))
    assert status.state == JobState.UNKNOWN
    why = explain(paths, job, status)
    assert why.id == "run-folder-deleted", why
    assert str(paths.root) in why.what


def test_slurms_resolver_of_tensorflow_is_told_to_count_no_gpus(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    lines = [
        "Traceback (most recent call last):",
        '  File "/w/t.py", line 2, in <module>',
        '  File "/x/tensorflow/python/distribute/cluster_resolver/slurm_cluster_resolver.py", '
        "line 150, in get_num_gpus",
        "FileNotFoundError: [Errno 2] No such file or directory: 'nvidia-smi'",
    ]
    error = FileNotFoundError(2, "No such file or directory", "nvidia-smi")
    leave(paths, 0, 1.0, problems.of_exception(1, error, lines))
    why = explain(paths, job, FAILED)
    assert why.id == "slurm-resolver", why
    assert "auto_set_gpu=False" in " ".join(why.steps)


def test_two_ranks_on_one_gpu_are_told_by_horovods_few_words(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    words = "ncclCommInitRank failed: invalid usage (run with NCCL_DEBUG=WARN for details)"
    error = type("HorovodInternalError", (RuntimeError,), {})(words)
    for rank in (0, 1):
        leave(paths, rank, 1.0 + rank, problems.of_exception(1, error, [f"X: {error}"]), size=2)
    why = explain(paths, job, FAILED)
    assert why.id == "nccl-invalid-usage", why
    assert "two ranks use one GPU" in why.what
    assert why.certainty.value == "unsure"


def test_a_reason_in_the_log_is_found_where_the_error_has_none(tmp_path: Path) -> None:
    line = "n1:7:9 [0] init.cc:99 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA"
    log = f"0@n0 | {line} device 4b000\n"
    error = "HorovodInternalError: ncclCommInitRank failed: invalid usage (run with NCCL_DEBUG="
    why = explained(tmp_path, log, (0, 1.0, f"{error}WARN for details)"))
    assert why.id == "nccl-duplicate-gpu", why
    assert any("job.log:1: 0@n0" in line for line in why.evidence_lines)


def test_a_warning_in_the_log_is_not_the_cause_of_another_error(tmp_path: Path) -> None:
    log = "0@n0 | NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4b000\n"
    assert explained(tmp_path, log, (0, 1.0, "KeyError: 'weights'")).id == "key-missing"


@pytest.mark.parametrize(
    ("runtime", "command"),
    [
        ("none", "/envs/torch/bin/python /w/t.py --help"),
        ("apptainer", "apptainer exec /envs/torch python3 /w/t.py --help"),
        ("podman-hpc", "podman-hpc run --rm /envs/torch python3 /w/t.py --help"),
    ],
)
def test_a_command_in_the_image_is_that_of_the_runtime(
    tmp_path: Path, runtime: str, command: str
) -> None:
    paths, job = made(tmp_path, "")
    planned(paths, runtime, request={"settings": (Given("image", "/envs/torch"),)})
    leave(paths, 0, 1.0, problems.of_exit(2, "error: unrecognized arguments: --lr 1"), 2)
    why = explain(paths, job, FAILED)
    assert (why.id, str(why.fix)) == ("bad-argument", command), why
    # One that was named by the images' folder is where the job had it.
    planned(paths, runtime, request={"settings": (Given("image", "torch"),)})
    why = explain(paths, replace(job, image="/envs/torch"), FAILED)
    assert str(why.fix) == command


@pytest.mark.parametrize(
    ("trainer", "command"),
    [
        (RECIPE, "apptainer exec a.sif python3 -m recipes.torch_mnist --help"),
        (
            Trainer("minimal_ddp", "recipes.minimal.minimal_ddp", None, ("--lr", "1")),
            "apptainer exec a.sif python3 -m recipes.minimal.minimal_ddp --help",
        ),
        (Trainer("x.sh", None, None, program="/w/x.sh"), "runner logs --rank 0 42"),
    ],
)
def test_the_arguments_of_a_trainer_are_told_by_itself(
    tmp_path: Path, trainer: Trainer, command: str
) -> None:
    paths, job = made(tmp_path, "")
    planned(paths, trainer=trainer)
    leave(paths, 0, 1.0, problems.of_exit(2, "error: unrecognized arguments: --lr 1"), 2)
    assert str(explain(paths, job, FAILED).fix) == command


@pytest.mark.parametrize(
    ("error", "given", "fix"),
    [
        ("training diverged: the loss is nan", "--base-lr=0.05", "--base-lr 0.005"),
        ("training diverged: the loss is nan", "--epochs=5", "--base-lr 0.01"),
        ("MemoryError", "--batch-size=64", "--batch-size 32"),
    ],
)
def test_an_argument_is_changed_from_what_the_ranks_had(
    tmp_path: Path, error: str, given: str, fix: str
) -> None:
    paths, job = made(tmp_path, "")
    planned(paths, trainer=replace(RECIPE, args=(given,)))
    leave(paths, 0, 1.0, problems.of_exit(1, error), 1)
    assert str(explain(paths, job, FAILED).fix) == f"-- {fix}"


def of_older_runner(folder: Path, trainer: str, *args: str) -> tuple[JobPaths, Job]:
    """Return a run whose plan has no command of the trainer: its launch has the words."""
    paths, job = made(folder, "")
    planned(paths)
    plan = json.loads(paths.plan.read_text())
    del plan["command"]
    paths.plan.write_text(json.dumps(plan))
    return paths, replace(job, typed=replace(job.typed, trainer=trainer, args=args))


@pytest.mark.parametrize(
    ("trainer", "args", "error", "code", "fix"),
    [
        ("torch_mnist", ["--base-lr", "0.05"], "training diverged: nan", 1, "-- --base-lr 0.005"),
        ("t.py", ["--batch-size=64"], "MemoryError", 1, "-- --batch-size 32"),
        (
            "torch_mnist",
            ["--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 -m recipes.torch_mnist --help",
        ),
        (
            "minimal_ddp",
            ["--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 -m recipes.minimal.minimal_ddp --help",
        ),
        (
            "t.py",
            ["--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 t.py --help",
        ),
        (
            "python",
            ["t.py", "--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 t.py --help",
        ),
        ("", [], "error: unrecognized arguments: --lr 1", 2, "runner logs --rank 0 42"),
    ],
)
def test_without_the_ranks_command_the_launch_tells_the_trainer(
    tmp_path: Path, trainer: str, args: list[str], error: str, code: int, fix: str
) -> None:
    paths, job = of_older_runner(tmp_path, trainer, *args)
    leave(paths, 0, 1.0, problems.of_exit(code, error), code)
    assert str(explain(paths, job, FAILED).fix) == fix
    paths.plan.unlink()
    assert str(explain(paths, job, FAILED).fix) == fix, "the same where no plan was written"


@pytest.mark.parametrize(
    ("trainer", "offered"), [("torch_mnist", True), ("t.py", False), ("-m", False)]
)
def test_without_the_ranks_command_requeue_is_offered_to_a_recipe(
    tmp_path: Path, trainer: str, offered: bool
) -> None:
    paths, job = of_older_runner(tmp_path, trainer)
    said = explain(paths, job, Status(JobState.TIMEOUT))
    assert ("--requeue" in str(said.fix)) == offered


def test_words_of_a_log_are_quoted_and_cut(tmp_path: Path) -> None:
    evil = "x';touch${IFS}/tmp/evil;'"
    log = f"slurmstepd: error: execve(): {evil}{'y' * 500}: Permission denied\n"
    why = explained(tmp_path, log)
    assert why.id == "program-not-executable", why
    assert len(why.what) < 500
    assert "file 'x'\"'\"';touch" in " ".join(why.steps)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "PMIx was unable to find any usable plugins for the GDS framework",
            "pmix-directory-missing",
        ),
        ("The application appears to have been direct launched", "pmi-missing"),
    ],
)
def test_pmix_says_itself_what_it_lacks(tmp_path: Path, line: str, name: str) -> None:
    log = f"0@n0 | {line}\n0@n0 | PMIX ERROR: x\n0@n0 | *** An error occurred in MPI_Init\n"
    paths, job = made(tmp_path, log)
    planned(paths)
    leave(paths, 0, 1.0, Problem(kinds.IN_INIT, "it exited in hvd.init()"), 82)
    assert explain(paths, job, FAILED).id == name


# What programs write that then train: PyTorch 2.13, TensorFlow 2.21, NCCL 2.27, Horovod 0.28.1,
# Open MPI 4.1, Apptainer 1.4, Slurm 24.11
HEALTHY = """\
srun: job 42 queued and waiting for resources
srun: job 42 has been allocated resources
slurmstepd: error: couldn't chdir to `/home/u/gone': No such file or directory: going to /tmp instead
INFO:    squashfuse mount took an unexpectedly long time: 2.1s
INFO:    Terminating squashfuse_ll after timeout
INFO:    Timeouts can be caused by a running background process
WARNING: passwd file doesn't exist in container, not updating
WARNING: group: unknown groupid 10042
0@n0 | 2026-11-26 10:00:00.1: I tensorflow/core/platform/cpu_feature_guard.cc:210] rebuild
0@n0 | 2026-11-26 10:00:00.2: E external/local_xla/cuda/cuda_dnn.cc:467] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered
0@n0 | E0000 00:00:17.3 9 cuda_driver.cc:152] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected
0@n0 | 2026-11-26 10:00:00.3: I external/local_xla/cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.
0@n0 | /x/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).
0@n0 | [W1126 10:00:00.4 socket.cpp:200] [c10d] The IPv6 network addresses of (n1, 29500) cannot be retrieved (gai error: -2 - Name or service not known).
0@n0 | [W1126 10:00:00.5 ProcessGroupGloo.cpp:760] Warning: Unable to resolve hostname to a (local) address.
0@n0 | n1:5:9 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.
0@n0 | n1:5:9 [0] NCCL INFO Failed to open libibverbs.so[.1]
0@n0 | --------------------------------------------------------------------------
0@n0 | WARNING: There was an error initializing an OpenFabrics device.
0@n0 |   Local host:   n1
0@n0 | wandb: WARNING Unable to reach the server, will retry
0@n0 | huggingface/tokenizers: The current process just got forked, after parallelism has already been used.
0@n0 | [rank0]:[W503 01:52:07.59 socket.cpp:204] [c10d] The hostname of the client socket cannot be retrieved. err=-3
0@n0 | n1:5:5 [0] misc/cudawrap.cc:179 NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : libcuda.so: cannot open shared object file: No such file or directory
0@n0 | [n1:1] PMIX ERROR: NOT-FOUND in file gds_ds12_lock_pthread.c at line 199
0@n0 | A module that was compiled using NumPy 1.x cannot be run in
0@n0 | [1610465245.26] [n1:9:0] rdmacm_cm.c:638  UCX  ERROR rdma_create_event_channel failed: No such device
slurmstepd: error: task/cgroup: unable to add task[pid=1234] to memory cg '(null)'
srun: error: spank: x11.so: Plugin file not found
/home/u/.bashrc: line 12: ml: command not found
Lmod has detected the following error: The following module(s) are unknown: "cuda/12"
0@n0 | sh: 1: nvcc: not found
0@n0 | -- Could NOT find OpenMP_CXX (missing: OpenMP_CXX_FLAGS OpenMP_CXX_LIB_NAMES)
0@n0 | WARNING: apex is not installed, fused kernels are off: No module named 'amp_C'
0@n0 | gcs_rpc_client.h:179: Failed to connect to GCS at address 10.0.0.1:6379 within 5 seconds.
pyxis: imported docker image: nvcr.io#nvidia/pytorch:24.01-py3
0@n0 | step 1 loss 2.3 errors 0 failed 0
0@n0 | OSError: [Errno 9] Bad file descriptor
0@n0 | W0823 10:09:44.04 2451 gen_comm_id_helper.cc:120] connect addr=127.0.0.1:47731 failed 1 times with reason: Connection refused retry after 1 seconds
0@n0 | mkdir: cannot create directory 'out': File exists
0@n0 | [n1:1] mca_base_component_repository_open: unable to open mca_btl_openib: librdmacm.so.1: cannot open shared object file
srun: error: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1
"""  # noqa: E501


def test_what_a_healthy_start_prints_is_no_cause(tmp_path: Path) -> None:
    paths, job = made(tmp_path, HEALTHY)
    leave(paths, 0, 1.0, problems.of_exit(7), 7)
    why = explain(paths, job, FAILED)
    assert why.certainty.value == "unsure", why
    for line in HEALTHY.splitlines(keepends=True):
        paths.log.write_text(line)
        why = explain(paths, job, FAILED)
        assert why.certainty.value == "unsure", line


@pytest.mark.parametrize(
    "label", ["[rank3]: ", "[1,3]<stderr>:", "Thu Aug 29 21:45:09 2019[3]<stderr>:", "stderr: "]
)
def test_what_a_launcher_puts_before_a_line_hides_no_error(tmp_path: Path, label: str) -> None:
    lines = [
        f"{label}Traceback (most recent call last):",
        f'{label}  File "/w/train.py", line 9, in <module>',
        f"{label}FileNotFoundError: [Errno 2] No such file or directory: '/w/ckpt/.metadata'",
    ]
    paths, job = made(tmp_path, "".join(f"0@n0 | {line}\n" for line in lines))
    leave(paths, 0, 1.0, problems.of_process(1, lines))
    assert explain(paths, job, FAILED).id == "checkpoint-not-on-node"


def test_another_ranks_end_is_not_the_cause_where_the_log_has_one(tmp_path: Path) -> None:
    line = "n3:15:91 [1] NCCL WARN NET/IB : Got async event : port error"
    error = "RuntimeError: NCCL communicator was aborted on rank 0."
    why = explained(tmp_path, f"0@n0 | {line}\n", (0, 1.0, error))
    assert why.id == "nccl-ib-event", why


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("libmpi.so.40: cannot open shared object file: No such file", "mpi-other-library"),
        (
            "/lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /u/x.so)",
            "glibc-version",
        ),
    ],
)
def test_condas_python_is_no_package_of_the_home(tmp_path: Path, error: str, name: str) -> None:
    folder = "/home/u/miniconda3/envs/x/lib/python3.10/site-packages"
    log = f'0@n0 |   File "{folder}/torch/__init__.py", line 76, in <module>\n'
    assert explained(tmp_path, log, (0, 1.0, f"ImportError: {error}")).id == name


def test_a_node_that_does_not_answer_is_not_the_one_that_was_ended(tmp_path: Path) -> None:
    log = (
        "srun: error: slurm_receive_msgs: [[n1]:6818] failed: Socket timed out\n"
        "srun: error: Task launch for StepId=96.0 failed on node n2: No such process\n"
    )
    why = explained(tmp_path, log)
    assert (why.id, str(why.fix)) == ("node-not-answering", "--exclude n1"), why


def test_a_line_that_only_looks_like_an_error_does_not_hide_the_others(tmp_path: Path) -> None:
    lines = [
        "ERROR  : Could not write info to setgroups: Permission denied",
        "ERROR  : the container could not be started",
    ]
    paths, job = made(tmp_path, "".join(f"0@n0 | {line}\n" for line in lines))
    leave(paths, 0, 1.0, problems.of_process(1, lines))
    assert explain(paths, job, FAILED).id == "apparmor"


@pytest.mark.parametrize("program", ["nsys", "./run.sh", "/w/run.sh"])
def test_a_program_that_slurm_does_not_find_is_no_bad_argument(
    tmp_path: Path, program: str
) -> None:
    line = f"slurmstepd: error: execve(): {program}: No such file or directory"
    paths, job = made(tmp_path, f"0@n1 | {line}\n")
    leave(paths, 0, 1.0, problems.of_process(2, [line]), 2, host="n1")
    why = explain(paths, job, FAILED)
    assert why.id in ("runtime-missing", "program-not-on-node"), why
    assert program in why.what
    assert why.certainty.value == "likely"


BOUND = (
    "FATAL:   container creation failed: mount {0}->{0} error: while mounting {0}: "
    "destination {0} doesn't exist in container\n"
)


@pytest.mark.parametrize(
    ("bind", "target", "fix"),
    [
        ("data:/dev/mine:ro", "/dev/mine", "--bind data:/mnt/mine:ro, leave out --bind"),
        ("/gpfs/u", "/gpfs", "--bind /gpfs/u:/mnt/u, leave out --bind"),
        (
            "data:/data",
            "/opt/cray",
            "unset APPTAINER_BIND APPTAINER_BINDPATH SINGULARITY_BIND SINGULARITY_BINDPATH && "
            "--apptainer-arg=--no-mount=bind-paths",
        ),
    ],
)
def test_a_bind_without_a_place_gets_one_or_is_left_out(
    tmp_path: Path, bind: str, target: str, fix: str
) -> None:
    paths, job = made(tmp_path, BOUND.format(target))
    why = explain(paths, launched(job, bind=bind), FAILED)
    assert (why.id, str(why.fix)) == ("bind-target-missing", fix)


def test_a_bind_is_named_by_its_place_in_the_container(tmp_path: Path) -> None:
    place = "destination /var/apptainer/mnt/session/afs/u doesn't exist in container"
    why = explained(
        tmp_path, f"FATAL:   container creation failed: while mounting /afs/u: {place}\n"
    )
    assert why.what.startswith("the bind target /afs/u does not exist"), why


def test_a_node_that_the_log_does_not_name_leaves_no_gap_in_a_command(tmp_path: Path) -> None:
    error = "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n"
    why = explained(tmp_path, error)
    assert "srun -w NODE nvidia-smi" in " ".join(why.steps), why
    assert "the GPU of NODE" in why.what


def test_apptainers_own_session_folder_is_no_bind(tmp_path: Path) -> None:
    folder = "/opt/apps/apptainer/var/apptainer/mnt/session/rootfs"
    line = f"hook function for tag sessiondir returns error: failed to create {folder} directory"
    why = explained(
        tmp_path, f"FATAL:   container creation failed: {line}: mkdir {folder}: permission denied\n"
    )
    assert (why.id, why.fixed_by) == ("session-folder", "nobody")


@pytest.mark.parametrize(
    ("error", "cause", "fix"),
    [
        (
            "ImportError: libsndfile.so.1: cannot open shared object file: No such file",
            "the environment a.sif does not have",
            "in the environment",
        ),
        (
            "Exception: data did not match any variant of untagged enum ModelWrapper at line 7",
            "than the environment has",
            "a.sif/bin/python -m pip install -r more.txt",
        ),
        ("ModuleNotFoundError: No module named 'ours'", "Python in the environment a.sif", ""),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/gpfs/u/x'",
            "opens /gpfs/u/x, which does not exist on the node",
            "",
        ),
        (
            "ImportError: /lib64/libc.so.6: version `GLIBC_2.38' not found (required by /e/x.so)",
            "/e/x.so needs GLIBC_2.38, which the C library of the node n0 does not have",
            "srun -w n0 ldd --version",
        ),
    ],
)
def test_without_an_image_nothing_is_said_of_one(
    tmp_path: Path, error: str, cause: str, fix: str
) -> None:
    paths, job = made(tmp_path, "", (0, 1.0, error))
    planned(paths, "none")
    why = explain(paths, job, FAILED)
    said = " ".join((why.what, why.because, *why.steps, str(why.fix)))
    assert cause in why.what
    assert fix in said
    assert " image" not in said
    assert "runner build" not in said
    assert "--bind" not in said


def test_the_doctor_looks_at_nodes_without_an_image_too(tmp_path: Path) -> None:
    paths, job = made(tmp_path, "")
    problem = Problem(kinds.DRIVER, "the driver is too old", {"reason": "old", "evidence": []})
    leave(paths, 0, 1.0, problem)
    planned(paths, "none")
    assert str(explain(paths, job, FAILED).fix) == (
        "runner doctor --job --nodelist n0 --gpus-per-node 1 --runtime none --image a.sif"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("OSError: [Errno 30] Read-only file system: '/x'", "an image cannot be written to"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system",
            "an image is read-only",
        ),
    ],
)
def test_what_is_true_of_images_alone_is_said_of_them(tmp_path: Path, line: str, said: str) -> None:
    paths, job = made(tmp_path, f"{line}\n", (0, 1.0, line))
    planned(paths, "none")
    why = explain(paths, job, FAILED)
    assert said in " ".join((why.what, *why.steps)), why


@pytest.mark.parametrize("scheduler", [x for x in SchedulerName if x is not SchedulerName.SLURM])
def test_an_option_of_sbatch_is_only_for_what_sbatch_submits(
    tmp_path: Path, scheduler: SchedulerName
) -> None:
    line = "fi_mr_reg: Unable to register MR of 8192 bytes: Cannot allocate memory"
    for number, error in ((1, problems.of_exit(1, line)), (2, problems.of_process(152, []))):
        paths, job = made(tmp_path / str(number), "")
        leave(paths, 0, 1.0, error)
        why = explain(paths, replace(job, scheduler=scheduler), FAILED)
        said = " ".join((*why.steps, str(why.fix)))
        assert "ulimit" in said, why
        assert "--propagate" not in said


@pytest.mark.parametrize(
    ("code", "name", "certainty", "said", "fix"),
    [
        (152, "rank-ended", "likely", "CPU time", "--sbatch-arg=--propagate=NONE"),
        (129, "rank-ended", "unsure", "SIGHUP", "runner logs --all 42"),
        (143, "rank-ended", "unsure", "SIGTERM", "runner logs --all 42"),
        (139, "rank-crashed", "likely", "SIGSEGV", "runner logs --rank 0 42"),
    ],
)
def test_a_signal_is_told_by_what_it_is_for(
    tmp_path: Path, code: int, name: str, certainty: str, said: str, fix: str
) -> None:
    paths, job = made(tmp_path, "0@n1 | step 5 loss 0.3\n")
    leave(paths, 0, 1.0, problems.of_process(code, []), code, host="n1")
    why = explain(paths, job, FAILED)
    assert (why.id, why.certainty.value, str(why.fix)) == (name, certainty, fix), why
    assert said in why.what


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("error: subprocess-exited-with-error", "pip had to compile, and that failed; the first"),
        ("RuntimeError: device.cc:83] ifa != nullptr", "on the interface that it was given"),
        ("malloc.c:37: _int_malloc: Assertion `size' failed.", "0@n0: _int_malloc: "),
    ],
)
def test_what_a_message_does_not_name_leaves_no_gap(tmp_path: Path, error: str, cause: str) -> None:
    said = explained(tmp_path, "", (0, 1.0, error)).what
    assert cause in said
    assert not set("\0") & set(said)


def test_what_a_transport_says_is_told_before_the_crash_that_follows(tmp_path: Path) -> None:
    line = "[17.8] [n1:13:0]  wireup.c:410  UCX  ERROR   ep 0x7f: no remote ep address for lane[1]"
    paths, job = made(tmp_path, f"0@n1 | {line}\n")
    leave(paths, 0, 1.0, problems.of_process(139, [line]), 139, host="n1")
    why = explain(paths, job, FAILED)
    assert (why.id, why.certainty.value) == ("transport-says", "unsure"), why
    assert "no remote ep address" in why.what
    assert any("SIGSEGV" in one for one in why.evidence_lines)


def test_a_node_that_failed_is_known_by_slurms_line_too(tmp_path: Path) -> None:
    due = " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    log = f"slurmstepd: error: *** STEP 42.0 ON n1 CANCELLED AT 2026-11-26T10:00:00{due} ***\n"
    assert explained(tmp_path, log).id == "node-lost"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("socket.gaierror", "no-network"),
        ("concurrent.futures.process.BrokenProcessPool", "data-loader-ended"),
        ("subprocess.TimeoutExpired", "timed-out"),
        ("zipfile.BadZipFile", "zip-damaged"),
    ],
)
def test_an_exception_whose_name_says_no_error_is_found(
    tmp_path: Path, name: str, kind: str
) -> None:
    said = {"no-network": "[Errno -2] Name or service not known"}.get(kind, "what it says")
    lines = ["Traceback (most recent call last):", '  File "/w/t.py", line 9', f"{name}: {said}"]
    paths, job = made(tmp_path, "".join(f"0@n1 | [rank0]: {line}\n" for line in lines))
    problem = problems.of_process(1, [f"[rank0]: {line}" for line in lines])
    leave(paths, 0, 1.0, problem, 1, host="n1")
    why = explain(paths, job, FAILED)
    assert why.id == kind, why
    assert problem.fields["error"] == f"{name}: {said}"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("train.error.mean: 0.5", False),
        ("val_error: 0.12", False),
        ("val.error: -1e-05", False),
        ("a.queue.size: 3", False),
        ("lib.version: 2", False),
        ("struct.error: unpack requires a buffer of 4 bytes", True),
        ("socket.timeout: timed out", True),
        ("KeyError: 3", True),
    ],
)
def test_a_metric_is_no_exception(line: str, error: bool) -> None:
    assert problems.of_process(1, [line]).fields["error"] == (line if error else "")
    assert bool(re.match(OF_A_TYPE, line)) is error


def test_memory_of_the_host_that_cannot_be_pinned_is_not_the_gpus(tmp_path: Path) -> None:
    error = "RuntimeError: CUDA error: out of memory"
    frame = '  File "/x/deepspeed/accelerator/cuda_accelerator.py", line 217, in pin_memory'
    lines = ["Traceback (most recent call last):", frame, "    return tensor.pin_memory()", error]
    paths, job = made(tmp_path, "")
    leave(paths, 0, 1.0, problems.of_exception(1, RuntimeError(error[14:]), lines), 1, host="n1")
    why = explain(paths, job, FAILED)
    assert (why.id, why.certainty.value) == ("pinned-memory", "likely"), why


def test_what_nccl_says_as_information_can_be_the_cause(tmp_path: Path) -> None:
    error = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:1, internal error"
    log = f"0@n1 | n1:7:7 [0] NCCL INFO Bootstrap : no socket interface found\n0@n1 | {error}\n"
    paths, job = made(tmp_path, log)
    problem = problems.of_process(1, [error])
    leave(paths, 0, 1.0, problem, 1, host="n1")
    assert explain(paths, job, FAILED).id == "nccl-no-interface"


def test_a_job_that_slurm_has_lost_is_launched_again(tmp_path: Path) -> None:
    """Without a start in its folder it never ran; sacct was asked before, and knows nothing."""
    paths, job = made(tmp_path, "")
    paths.log.unlink(missing_ok=True)
    lost = explain(paths, job, Status(JobState.UNKNOWN, job_status.FORGOTTEN))
    assert (lost.id, lost.certainty.value) == ("never-began", "likely"), lost
    assert "never began" in lost.what
    paths.starts.write_text('{"began": 1.0}\n')
    killed = explain(paths, job, Status(JobState.UNKNOWN, job_status.FORGOTTEN))
    assert killed.id == "no-record"
    for why in (lost, killed):
        assert why.fix is not None
        assert "sacct" not in why.fix.text
