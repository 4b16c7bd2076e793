"""What others say of a rank that ended, and what a rank survived, is no cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.contract import failure_kinds as kinds
from runners.explain.first_failure import as_logged, without_ignored
from runners.explain.judge import PATTERNS, explain
from runners.explain.read_facts import facts
from runners.explain.searched_text import LONGEST_MESSAGE, text_of
from runners.injob.rank import problems
from runners.injob.rank.supervise import ENDED

from ..failures import leave
from .test_facts import FAILED, explained, made
from .test_judge import SRUN
from .test_signatures import log_of

# Errors of PyTorch 2.1 to 2.13, NCCL, Horovod 0.28, TensorFlow 2.21 and JAX where a peer has ended
FOLLOWERS = [
    ("RuntimeError", "[/x/gloo/transport/uv/pair.cc:333] Connection reset by peer"),
    ("DistBackendError", "x: remote process exited or there was a network error, NCCL 2.27"),
    ("DistBackendError", "NCCL communicator was aborted on rank 1."),
    ("DistBackendError", "retrieving ncclUniqueId [...] got error: Connection reset by peer"),
    ("DistNetworkError", "failed to recv, got 0 bytes"),
    ("DistNetworkError", "Connection reset by peer"),
    ("DistStoreError", "wait timeout after 300000ms, keys: /default_pg/0//cuda//0/0"),
    ("RuntimeError", "[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 10000 ms"),
    ("HorovodInternalError", "ncclAllReduce failed: unhandled system error"),
    ("UnavailableError", "Graph execution error:\nSocket closed"),
    ("CancelledError", "Graph execution error:\n[Derived]RecvAsync is cancelled."),
    ("XlaRuntimeError", "The following tasks are unhealthy (stopped sending heartbeats):"),
    ("BrokenPipeError", "[Errno 32] Broken pipe"),
]


@pytest.mark.parametrize(("name", "words"), FOLLOWERS)
def test_a_rank_that_lost_another_is_not_to_blame(tmp_path: Path, name: str, words: str) -> None:
    paths, job = made(tmp_path, "")
    problem = problems.of_exception(1, type(name, (RuntimeError,), {})(words), [f"{name}: {words}"])
    leave(paths, 1, 1.0, problem)
    leave(paths, 0, 2.0, problems.of_exception(1, KeyError("weights"), ["KeyError: 'weights'"]))
    why = explain(paths, job, FAILED)
    assert (why.id, why.rank) == ("key-missing", 0), why


@pytest.mark.parametrize(
    "error", ["ncclCommInitRank failed: invalid usage", "Mismatched ALLREDUCE tensor shapes: x"]
)
def test_an_error_of_its_own_in_the_same_words_is_not_a_followers(error: str) -> None:
    horovods = type("HorovodInternalError", (RuntimeError,), {})(error)
    assert problems.of_exception(1, horovods, []).kind == kinds.EXCEPTION


@pytest.mark.parametrize(
    ("code", "name", "certainty"),
    [
        (1, "gpu-memory", "likely"),
        (139, "gpu-memory", "likely"),
        (134, "gpu-memory", "certain"),
        (137, "rank-killed", "likely"),
    ],
)
def test_a_line_of_the_log_that_a_rank_may_have_survived(
    tmp_path: Path, code: int, name: str, certainty: str
) -> None:
    """A rank that aborts has said why; nothing that it says sends SIGKILL."""
    paths, job = made(tmp_path, "0@n0 | CUDA out of memory. Tried to allocate 2 GiB\n")
    leave(paths, 0, 1.0, problems.of_process(code, []), code)
    why = explain(paths, job, FAILED)
    assert (why.id, why.certainty.value) == (name, certainty), why


@pytest.mark.parametrize(
    "line",
    [
        "[n1:3] unable to open mca_mtl_psm2: libpsm2.so.2: cannot open shared object file: No such "
        "file or directory (ignored)",
        "flash_attn is not there, falling back: ImportError: libcudart.so.11.0: cannot open shared "
        "object file: No such file or directory",
        "E1126 10:00:00.1 torch/_inductor/select_algorithm.py:12] OutOfMemoryError: out of "
        "resource: triton_mm. Ignoring this choice.",
        "WARNING: Skipping mount /var/apptainer/mnt/session/etc/resolv.conf: no such file or "
        "directory",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError: "
        "[Errno -3] Temporary failure in name resolution': /simple/x/",
    ],
)
def test_what_a_program_does_without_is_no_cause(tmp_path: Path, line: str) -> None:
    paths, job = made(tmp_path, f"0@n0 | {line}\n")
    leave(paths, 0, 1.0, problems.of_exit(1))
    assert explain(paths, job, FAILED).id == "unknown"


def test_why_all_were_ended_is_read_of_any_of_them(tmp_path: Path) -> None:
    """An MPI that ends every rank by SIGTERM may do so before the one to blame has a record."""
    lines = ("A requested component was not found, or was unable to be opened.", "Component: nope")
    paths, job = made(tmp_path, "".join(f"1@n1 | {line}\n" for line in lines))
    for rank in (0, 1):
        leave(paths, rank, 1.0 + rank, ENDED, 143)
    assert explain(paths, job, FAILED).id == "ompi-no-component"


def test_why_mpi_gave_up_counts_more_than_that_the_ranks_did_not_meet(tmp_path: Path) -> None:
    """Of two ranks with one fault Slurm may kill the one before it has said so."""
    lines = ("A requested component was not found, or was unable to be opened.", "Component: nope")
    paths, job = made(tmp_path, "".join(f"1@n1 | {line}\n" for line in lines))
    problem = problems.Problem(kinds.NOT_MET, "rank 0 ended first", {"ended": [[0, ""]]})
    leave(paths, 1, 1.0, problem, 82)
    told = explain(paths, job, FAILED)
    assert (told.id, told.certainty.value) == ("ompi-no-component", "likely")


def test_a_permission_that_no_file_lacks_is_not_a_files(tmp_path: Path) -> None:
    error = "RuntimeError: tracking.example.org says: Permission denied"
    assert explained(tmp_path, "", (0, 1.0, error)).id == "rank-exception"


def test_colours_within_an_error_are_no_part_of_it(tmp_path: Path) -> None:
    text = "\n  Resource \x1b[93mpunkt\x1b[0m not found.\n  Please use the NLTK Downloader to x"
    paths, job = made(tmp_path, "")
    lines = f"LookupError: {text}".splitlines()
    leave(paths, 0, 1.0, problems.of_exception(1, LookupError(text), lines))
    assert "nltk.downloader -d FOLDER punkt`" in " ".join(explain(paths, job, FAILED).steps)


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("KeyError: 'lr'", "key-missing"),
        ("OSError: [Errno 122] Disk quota exceeded", "quota"),
        ("MyOwnError: odd", "rank-exception"),
        ("slurmstepd: error: couldn't chdir to `/w': No such file", "job-folder-missing"),
    ],
)
def test_in_a_log_without_records_the_cause_comes_before_what_followed(
    tmp_path: Path, cause: str, name: str
) -> None:
    """The others' lost connections, torchrun's summary, and what Python ignores at its end."""
    text = f"""Error executing job with overrides: []
{cause}
Exception ignored in: <function _ConnectionBase.__del__ at 0x7f>
Traceback (most recent call last):
  File "/usr/lib/python3.10/multiprocessing/connection.py", line 132, in __del__
OSError: [Errno 9] Bad file descriptor
[rank3]: DistBackendError: remote process exited or there was a network error, NCCL 2.27
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
srun: error: n1: task 0: Exited with exit code 1
srun: error: n2: task 1: Terminated
"""
    assert explained(tmp_path, text).id == name


def test_below_torchrun_what_python_ignores_is_no_error(tmp_path: Path) -> None:
    """Each rank here is torchrun, whose summary stands on top of its workers' errors."""
    tail = """Traceback (most recent call last):
  File "/w/t.py", line 9, in <module>
KeyError: 'lr'
Exception ignored in: <function _ConnectionBase.__del__ at 0x7f>
Traceback (most recent call last):
  File "/usr/lib/python3.10/multiprocessing/connection.py", line 132, in __del__
OSError: [Errno 9] Bad file descriptor
[rank3]: ncclRemoteError: A call failed possibly due to a network error
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:""".splitlines()
    paths, job = made(tmp_path, "".join(f"0@n0 | {line}\n" for line in tail))
    leave(paths, 0, 1.0, problems.of_process(1, tail))
    assert explain(paths, job, FAILED).id == "key-missing"


TRACEBACK = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n'
MISSING = f"{TRACEBACK}ModuleNotFoundError: No module named 'wandb'\n"
OFFLINE = f"{TRACEBACK}requests.exceptions.ConnectionError: host='api.wandb.ai': Max retries\n"
KEY = f"{TRACEBACK}KeyError: 'lr'\n"
STEPS = "step 1\n" * 400  # more than the last lines that are kept
END = SRUN.format(code=1)
FATAL = "FATAL:   container creation failed: mount /x error\n"
CANCELLED = "slurmstepd: error: *** {} ON n1 CANCELLED AT 2026-11-26T10:00:00{} ***\n"
LIMIT = " DUE TO TIME LIMIT"
SHEPHERD = "n1.cm: rank 0 died from signal 9\nn2.cm: shepherd died from signal 15\n"
NIC = "MPICH ERROR: Unable to use a NIC_POLICY of 'GPU'. GPU support is not enabled\n"
UNSET = "unbound variable\n"
ENROOT = "/usr/bin/enroot: line 5: enroot-mount: command not found\n"
CQ = "Open MPI: Error returned from fi_cq_readerr: Truncation error\n"


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (f"{MISSING}step 1\n{KEY}{END}", "key-missing"),
        (f"{OFFLINE}wandb: offline\n{KEY}{END}", "key-missing"),
        (f"{MISSING}step 1\nslurm_script: line 12: 4242 Segmentation fault t.py\n", "crash"),
        (f"{MISSING}{FATAL}{END}", "container-failed"),
        (f"{KEY}step 3\n{TRACEBACK}ConnectionResetError: [Errno 104] x\n{END}", "key-missing"),
        (f"{KEY}step 3\n{TRACEBACK}OddError: x\n{END}{END.replace('0:', '1:')}", "key-missing"),
        (f"{KEY}Error in atexit._run_exitfuncs:\n{TRACEBACK}OddError: x\n{END}", "key-missing"),
        (f"Exception ignored in: <f>\n{TRACEBACK}OSError: x\n{STEPS}{END}", "unknown"),
        ("KeyError: skipped\nslurmstepd: error: couldn't chdir to `/w': No such\n", "job-folder"),
        ("Error executing job with overrides: []\nKilled\n", "killed-in-log"),
        (f"Killed\n{CANCELLED.format('JOB 1', '')}", "cancelled-in-log"),
        (f"Killed\n{CANCELLED.format('JOB 1', LIMIT)}", "step-time-limit"),
        (f"Killed\n{CANCELLED.format('STEP 1.0', LIMIT)}", "step-time-limit"),
        (f"{TRACEBACK}ValueError: x\nKilled\n", "rank-exception"),
        ("ValueError: x\nKilled\n", "rank-exception"),
        ("ModuleNotFoundError: No module named 'foo'\nKilled\n", "python-module-missing"),
        ("FileNotFoundError: [Errno 2] No such file: '/data/x'\nKilled\n", "file-missing"),
        ("KeyError: \"'local_rank' not found in kwargs\"\n", "key-missing"),
        (SHEPHERD, "rank-killed"),
        (NIC, "unknown"),
        (f"/bin/bash: CUDA_HOME: {UNSET}", "shell-variable"),
        (f"bash: line 3: $1: {UNSET}", "shell-refused"),
        (f"./job.sh: line 3: arr[0]: {UNSET}", "shell-refused"),
        (f"./job.sh: line 3: !name: {UNSET}", "shell-refused"),
        (ENROOT, "pyxis-node"),
        (CQ, "mpi-truncate"),
    ],
)
def test_a_log_without_records_ends_with_the_cause(tmp_path: Path, log: str, name: str) -> None:
    assert explained(tmp_path, log).id.startswith(name)


def test_another_ranks_last_exception_is_not_that_of_the_first(tmp_path: Path) -> None:
    ranks = ("[rank1]: ", f"{KEY}step 3\n"), ("[rank0]: ", f"{TRACEBACK}OddError: x\n")
    log = "".join(f"{label}{line}\n" for label, text in ranks for line in text.splitlines())
    assert explained(tmp_path, log + END).id == "key-missing"


def test_of_several_ranks_without_labels_the_first_exception_counts(tmp_path: Path) -> None:
    paths, job = made(tmp_path, f"{KEY}step 3\n{TRACEBACK}OddError: x\n{END}")
    log = facts(paths, job, FAILED, PATTERNS).log
    errors = [as_logged(None, log, several) for several in (True, False)]
    assert [first.record.error for first in errors if first and first.record] == [
        "KeyError: 'lr'",
        "OddError: x",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "2024-01-01 10:00:00.1: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed "
        "at save_restore_v2_ops.cc:228 : NOT_FOUND: Key _GRAPH not found in checkpoint",
        "WARNING:absl:Skipping variable loading for optimizer 'Adam', because it has 1 variables "
        "whereas the saved optimizer has 13 variables.",
        "Optimizer loaded: has 148 variables, 148 variables restored",
        "step 3: Assertion `isfinite(loss)` failed, skipping batch",
        "checking driver: unsatisfied condition: driver>=525 (optional)",
    ],
)
def test_a_warning_is_not_the_cause_of_a_vague_error(tmp_path: Path, line: str) -> None:
    paths, job = made(tmp_path, f"0@n0 | {line}\n")
    error = type("InternalError", (RuntimeError,), {})("cublasLt failed")
    leave(paths, 0, 1.0, problems.of_exception(1, error, [f"InternalError: {error}"]))
    assert explain(paths, job, FAILED).id == "rank-exception"


def test_a_line_among_those_of_an_ignored_exception_is_kept() -> None:
    ignored = ["Exception ignored in: <f>", *TRACEBACK.splitlines(), "OSError: x"]
    assert not [*without_ignored(log_of(ignored).lines)]
    memory = "torch.OutOfMemoryError: CUDA out of memory"
    mixed = log_of([*ignored[:1], memory, *ignored[1:]])
    assert [line.text for line in without_ignored(mixed.lines)][:1] == [memory]
    labelled = log_of([*ignored[:2], f"[rank1]: {memory}", *ignored[2:]])
    assert [line.text for line in without_ignored(labelled.lines)] == [f"[rank1]: {memory}"]


def test_a_module_in_a_package_that_is_there_may_be_a_package_of_its_own(tmp_path: Path) -> None:
    error = "ModuleNotFoundError: No module named 'nvidia.dali'"
    assert "package of its own" in explained(tmp_path, "", (0, 1.0, error)).what


def test_of_an_endless_line_only_the_begin_is_searched(tmp_path: Path) -> None:
    """Else expressions that take the square of its length would search for minutes."""
    error = "RuntimeError: " + "Assertion `input_val " * 4000
    paths, job = made(tmp_path, "", (0, 1.0, error))
    assert len(text_of(facts(paths, job, FAILED, ())).error) <= LONGEST_MESSAGE
