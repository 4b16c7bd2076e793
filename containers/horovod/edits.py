"""Our edits of the Horovod 0.28.1 source archive: for today's frameworks, and for speed on CPUs.

Horovod 0.28.1 (June 2023) is the last release. It predates torch 2.1, TensorFlow 2.16 and
Python 3.12. Run as a program on a freshly unpacked source tree:

    python3 edits.py SOURCE_DIR

Every edit states how often its old text occurs; any other count means that the tree is not the
released 0.28.1, or was edited before, and nothing is written at all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs `count` times in `file`, by `new`; `why` is for the reader."""

    file: str
    old: str
    new: str
    why: str
    count: int = 1


class EditError(Exception):
    """The source tree is not the one an edit was written for."""


CXX17 = "torch >= 2.1 and TensorFlow >= 2.16 headers need C++17"
GLOO17 = (
    "gloo must speak the same C++ as its callers, or linking fails on"
    " gloo::rendezvous::Store::kDefaultTimeout (an inline variable from C++17 on)"
)
RELEASE = "-g takes two fifths of the time to compile, and 34 of 36 MB; -O3 stays"
KERAS = "the callbacks must use the Keras that TensorFlow uses (tf-keras), not Keras 3"

COMPILING = (
    Edit("setup.py", "else 'RelWithDebInfo'", "else 'Release'", RELEASE),
    Edit("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", CXX17),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "set(CMAKE_CXX_STANDARD 14)",
        "set(CMAKE_CXX_STANDARD 17)",
        CXX17,
    ),
    Edit("third_party/gloo/CMakeLists.txt", "-std=c++11", "-std=c++17", GLOO17),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "set(CMAKE_CUDA_STANDARD 11)",
        "set(CMAKE_CUDA_STANDARD 17)",
        "nvcc compiles with the host compiler's headers, which need C++17 from gcc 11 on",
    ),
    Edit(
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
        "needs XLA headers that the TensorFlow wheel lacks; costs only HOROVOD_ENABLE_XLA_OPS",
    ),
    Edit(
        "horovod/common/common.h",
        "#include <memory>\n",
        "#include <memory>\n#include <stdexcept>\n",
        "gcc 13 no longer includes it through other headers",
    ),
    Edit(
        "horovod/common/group_table.h",
        "#include <queue>\n",
        "#include <queue>\n#include <string>\n",
        "gcc 13 no longer includes it through other headers",
    ),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        "import sysconfig; print(sysconfig.get_path('include'))",
        "Python 3.12 has no distutils",
    ),
    Edit(
        "horovod/runner/js_run.py",
        "from distutils.spawn import find_executable",
        "from shutil import which as find_executable",
        "Python 3.12 has no distutils",
    ),
    Edit(
        "horovod/tensorflow/keras/__init__.py",
        "    from keras import backend as K",
        "    K = tf.keras.backend",
        KERAS,
    ),
    Edit(
        "horovod/tensorflow/keras/callbacks.py",
        "    from keras import backend as K",
        "    K = tf.keras.backend",
        KERAS,
    ),
)

OPERATIONS = "horovod/common/operations.cc"
WAKE = (
    "a rank that waited for a tensor sat out the rest of the cycle; now its waiting ends the cycle,"
    " and with that cycles of 10 ms beat those of 1 ms: fewer and larger exchanges. Measured on"
    " CPUs only, so builds for GPUs keep what they had"
)
LOOP = "bool RunLoopOnce(HorovodGlobalState& state);\n"
SLEEP_UNTIL_WAITING = """
#if !HAVE_GPU
std::mutex waiting_mutex;
std::condition_variable waiting_began;
int waiting = 0;
bool has_waited = false;

// Sleep for the rest of the cycle, or until a framework waits for a tensor.
void SleepUntilWaiting(std::chrono::steady_clock::time_point began, double cycle_ms, bool chosen) {
  std::unique_lock<std::mutex> lock(waiting_mutex);
  if (has_waited && !chosen) {
    cycle_ms = 10;
  }
  auto end = began + std::chrono::microseconds(long(cycle_ms * 1000.));
  waiting_began.wait_until(lock, end, [] { return waiting > 0; });
}
#endif
"""
SLEEP = """  if (sleep_duration > std::chrono::steady_clock::duration::zero()) {
    std::this_thread::sleep_for(sleep_duration);
  }
"""
SLEEP_OR_WAKE = f"""#if HAVE_GPU
{SLEEP}#else
  static const bool chosen = std::getenv(HOROVOD_CYCLE_TIME) != nullptr;
  SleepUntilWaiting(state.last_cycle_start, state.parameter_manager.CycleTimeMs(),
                    chosen || state.parameter_manager.IsAutoTuning());
#endif
"""
COUNT_WAITING = """void BeginWaiting() {
#if !HAVE_GPU
  {
    std::lock_guard<std::mutex> lock(waiting_mutex);
    ++waiting;
    has_waited = true;
  }
  waiting_began.notify_all();
#endif
}

void EndWaiting() {
#if !HAVE_GPU
  std::lock_guard<std::mutex> lock(waiting_mutex);
  --waiting;
#endif
}

"""
DECLARED, DEFINED = "Status CheckInitialized();\n", "Status CheckInitialized() {\n"
WAITING = """
// A thread of a framework waits for a tensor as long as this lives.
void BeginWaiting();
void EndWaiting();
struct Waiting {
  Waiting() { BeginWaiting(); }
  ~Waiting() { EndWaiting(); }
};
"""
POLL = """  while (true) {
    if (handle_manager.PollHandle(handle)) break;
    {
      py::gil_scoped_release release_python_gil;
      std::this_thread::yield();
    }
  }
"""
# Blocking on a condition instead of yielding was slower: waking an idle core costs more.
POLL_WAITING = """  if (!handle_manager.PollHandle(handle)) {
    py::gil_scoped_release release_python_gil;
    common::Waiting waiting;
    while (!handle_manager.PollHandle(handle)) {
      std::this_thread::yield();
    }
  }
"""
CONTROLLER = "horovod/common/gloo/gloo_controller.cc"
DOUBLING = "which tensors are ready: log2(N) messages one after the other, where a ring has 4(N-1)"
AND = "void GlooController::CrossRankBitwiseAnd("
REDUCE_BITS = """// Allreduce of a few bits by recursive doubling.
static void ReduceBits(const std::shared_ptr<gloo::Context>& context, std::vector<long long>& bits,
                       int count, void (*reduce)(void*, const void*, const void*, size_t)) {
  const int rank = context->rank;
  const size_t bytes = count * sizeof(long long);
  const auto slot = gloo::Slot::build(gloo::kAllreduceSlotPrefix, 1);
  std::vector<long long> received(count);
  auto mine = context->createUnboundBuffer(bits.data(), bytes);
  auto theirs = context->createUnboundBuffer(received.data(), bytes);
  const auto give = [&](int to) {
    mine->send(to, slot);
    mine->waitSend(context->getTimeout());
  };
  int doubling = 1; // the ranks that double: the largest power of two
  while (2 * doubling <= context->size) doubling *= 2;
  if (rank >= doubling) { // one of the others: gives its bits, and gets the result
    give(rank - doubling);
    mine->recv(rank - doubling, slot);
    mine->waitRecv(context->getTimeout());
    return;
  }
  const bool serves = rank + doubling < context->size;
  if (serves) {
    theirs->recv(rank + doubling, slot);
    theirs->waitRecv(context->getTimeout());
    reduce(bits.data(), bits.data(), received.data(), count);
  }
  for (int distance = 1; distance < doubling; distance *= 2) {
    theirs->recv(rank ^ distance, slot);
    give(rank ^ distance);
    theirs->waitRecv(context->getTimeout());
    reduce(bits.data(), bits.data(), received.data(), count);
  }
  if (serves) give(rank + doubling);
}

"""


def bits(operation: str) -> Edit:
    """Return the edit that gives a controller's allreduce of bits to ReduceBits."""
    old = f"""  gloo::AllreduceOptions opts(gloo_context_.ctx);
  opts.setOutput(bitvector.data(), count);
  void (*func)(void*, const void*, const void*, size_t) = &{operation}<long long>;
  opts.setReduceFunction(gloo::AllreduceOptions::Func(func));
  gloo::allreduce(opts);
"""
    new = f"  ReduceBits(gloo_context_.ctx, bitvector, count, &{operation}<long long>);\n"
    return Edit(CONTROLLER, old, new, DOUBLING)


# One too many where ranks have joined: a response of another size than the world is not cached.
JOINED = (
    "after hvd.join() rank 0 wrote beyond it, at the numbers of ranks, and crashed from 7 ranks on"
)

SPEED = (
    Edit("horovod/common/operations.h", DECLARED, DECLARED + WAITING, WAKE),
    Edit(OPERATIONS, "#include <map>\n", "#include <condition_variable>\n#include <map>\n", WAKE),
    Edit(OPERATIONS, LOOP, LOOP + SLEEP_UNTIL_WAITING, WAKE),
    Edit(OPERATIONS, SLEEP, SLEEP_OR_WAKE, WAKE),
    Edit(OPERATIONS, DEFINED, COUNT_WAITING + DEFINED, WAKE),
    Edit("horovod/torch/mpi_ops_v2.cc", POLL, POLL_WAITING, WAKE),
    Edit(CONTROLLER, AND, REDUCE_BITS + AND, DOUBLING),
    bits("BitAnd"),
    bits("BitOr"),
)
REPAIRS = (
    Edit(
        "horovod/common/controller.cc",
        "devices(requests.size());",
        "devices(size_ + ((int)requests.size() < size_));",
        JOINED,
    ),
)
EDITS = COMPILING + REPAIRS + SPEED


def edited(edit: Edit, text: str) -> str:
    """Return `text` with the edit made; EditError when `old` does not occur `count` times."""
    found = text.count(edit.old)
    if found != edit.count:
        raise EditError(
            f"{edit.file}: expected {edit.count} time(s), found {found}: {edit.old!r}\n"
            "Edit a freshly unpacked horovod-0.28.1; the build edits the tree it runs in."
        )
    return text.replace(edit.old, edit.new)


def read_source(tree: Path, file: str) -> str:
    """Return the text of `file` in `tree`; EditError when it is not there."""
    try:
        return (tree / file).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EditError(f"{file}: no such file in {tree}; is it horovod-0.28.1?") from error


def apply(tree: Path, edits: tuple[Edit, ...] = EDITS) -> list[str]:
    """Make all edits in `tree` or none; return the edited files. Raises EditError."""
    texts: dict[str, str] = {}
    for edit in edits:
        before = texts[edit.file] if edit.file in texts else read_source(tree, edit.file)
        texts[edit.file] = edited(edit, before)
    for file, text in texts.items():
        (tree / file).write_text(text, encoding="utf-8")
    return list(texts)


def main(argv: list[str]) -> int:
    """Edit the source tree named on the command line."""
    if len(argv) != 1:
        print("usage: python3 edits.py SOURCE_DIR", file=sys.stderr)
        return 2
    try:
        files = apply(Path(argv[0]))
    except EditError as error:
        print(f"edits.py: {error}", file=sys.stderr)
        return 1
    print(f"edits.py: made {len(EDITS)} edits in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
