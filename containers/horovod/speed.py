"""Edits for speed: when cycles begin, how a framework waits, how controllers agree."""

from __future__ import annotations

from containers.horovod.edit import Edit

OPERATIONS = "horovod/common/operations.cc"
WAKE = (
    "a rank that waited for a tensor sat out the rest of the cycle; now its waiting ends the cycle,"
    " and with that cycles of 10 ms beat those of 1 ms: fewer and larger exchanges. Builds for GPUs"
    " keep cycles of 1 ms, since gradients are exchanged while the GPU computes others"
)
LOOP = "bool RunLoopOnce(HorovodGlobalState& state);\n"
SLEEP_UNTIL_WAITING = """
std::mutex waiting_mutex;
std::condition_variable waiting_began;
int waiting = 0;
#if HAVE_GPU
bool woken = false;
#else
bool has_waited = false;
#endif

// Sleep for the rest of the cycle, or until a framework waits for a tensor.
void SleepUntilWaiting(std::chrono::steady_clock::time_point began, double cycle_ms, bool chosen) {
  std::unique_lock<std::mutex> lock(waiting_mutex);
#if HAVE_GPU
  // A wait lasts as long as the GPU computes: it begins a cycle, and the next are only shorter.
  if (waiting > 0) {
    cycle_ms = std::min(cycle_ms, 0.1);
  }
  const auto wakes = [] { return woken; };
#else
  if (has_waited && !chosen) {
    cycle_ms = 10;
  }
  const auto wakes = [] { return waiting > 0; };
#endif
  auto end = began + std::chrono::microseconds(long(cycle_ms * 1000.));
  waiting_began.wait_until(lock, end, wakes);
#if HAVE_GPU
  woken = false;
#endif
}
"""
SLEEP = """  auto start_time = std::chrono::steady_clock::now();
  auto sleep_duration = state.last_cycle_start +
                        std::chrono::microseconds(long(
                            state.parameter_manager.CycleTimeMs() * 1000.)) -
                        start_time;
  if (sleep_duration > std::chrono::steady_clock::duration::zero()) {
    std::this_thread::sleep_for(sleep_duration);
  }
"""
SLEEP_OR_WAKE = """  static const bool chosen = std::getenv(HOROVOD_CYCLE_TIME) != nullptr;
  SleepUntilWaiting(state.last_cycle_start, state.parameter_manager.CycleTimeMs(),
                    chosen || state.parameter_manager.IsAutoTuning());
"""
COUNT_WAITING = """void BeginWaiting() {
  {
    std::lock_guard<std::mutex> lock(waiting_mutex);
    ++waiting;
#if HAVE_GPU
    woken = true;
#else
    has_waited = true;
#endif
  }
  waiting_began.notify_all();
}

void EndWaiting() {
  std::lock_guard<std::mutex> lock(waiting_mutex);
  --waiting;
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


EDITS = (
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
