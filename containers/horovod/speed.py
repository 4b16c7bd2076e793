"""Edits for speed: when cycles begin, how a framework waits, how Gloo exchanges little data."""

from __future__ import annotations

from pathlib import Path

from containers.horovod.edit import Edit, NewFile

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

// Whether a tensor is left to exchange. Who waited for the last one may not have noticed yet.
bool TensorsAreLeft() {
  auto& sets = horovod_global.process_set_table;
  const auto ids = sets.Ids();
  return std::any_of(ids.begin(), ids.end(),
                     [&](int32_t id) { return !sets.Get(id).tensor_queue.Empty(); });
}
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
  const auto wakes = [] { return waiting > 0 && TensorsAreLeft(); };
#endif
  auto end = began + std::chrono::microseconds(long(cycle_ms * 1000.));
  waiting_began.wait_until(lock, end, wakes);
#if HAVE_GPU
  woken = false;
#endif
}
"""
QUEUE, QUEUE_METHOD = "horovod/common/tensor_queue.h", "  void PopMessagesFromQueue("
INCLUDES = "#include <algorithm>\n#include <condition_variable>\n#include <map>\n"
EMPTY = """  bool Empty() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return tensor_table_.empty();
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
POLL_WAITING = """  if (!handle_manager.PollHandle(handle)) {
    py::gil_scoped_release release_python_gil;
    common::Waiting waiting;
    handle_manager.Wait(handle);
  }
"""
BLOCK = (
    "a rank that waits sleeps after 50 microseconds, in which most small exchanges end: its core"
    " belongs to the threads that exchange"
)
HANDLES, HANDLES_H = "horovod/torch/handle_manager.cc", "horovod/torch/handle_manager.h"
PUBLIC, MUTEX = "  bool PollHandle(int handle);\n", "  std::mutex mutex_;\n"
INCLUDED = "#include <condition_variable>\n#include <memory>\n#include <set>\n#include <thread>\n"
BLOCKED = "  std::condition_variable done_;\n  std::multiset<int> waited_;\n"
DONE = "  results_[handle] = std::make_shared<Status>(status);\n}\n"
CLEARED = "  results_.clear();\n"
DONE_WAKES = """  results_[handle] = std::make_shared<Status>(status);
  if (waited_.count(handle)) {
    done_.notify_all();
  }
}

void HandleManager::Wait(int handle) {
  const auto spun = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (std::chrono::steady_clock::now() < spun) {
    if (PollHandle(handle)) {
      return;
    }
    std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto waited = waited_.insert(handle);
  done_.wait(lock, [&] {
    const auto result = results_.find(handle);
    return result == results_.end() || result->second != nullptr;
  });
  waited_.erase(waited);
}
"""
CONTROLLER = "horovod/common/gloo/gloo_controller.cc"
DOUBLING = "little data: log2(N) messages one after the other, where a ring has 4(N-1)"
ALGORITHMS = "horovod/common/ops/gloo_operations.cc"
RING = "  gloo::AllreduceOptions opts(gloo_context_->ctx);\n  opts.setOutput<T>("
CHOSEN = "opts.setReduceFunction(gloo::AllreduceOptions::Func(func));"
REDUCED = "\n  gloo::allreduce(opts);\n"
SMALL = """
  if (num_elements * sizeof(T) <= 64 * 1024) {
    AllreduceByDoubling(gloo_context_->ctx, buffer_data, num_elements, sizeof(T), reduce);
    return;
  }
  opts.setReduceFunction(reduce);
  gloo::allreduce(opts);
"""


def bits(operation: str) -> Edit:
    """Return the edit that gives a controller's allreduce of bits to AllreduceByDoubling."""
    old = f"""  gloo::AllreduceOptions opts(gloo_context_.ctx);
  opts.setOutput(bitvector.data(), count);
  void (*func)(void*, const void*, const void*, size_t) = &{operation}<long long>;
  opts.setReduceFunction(gloo::AllreduceOptions::Func(func));
  gloo::allreduce(opts);
"""
    new = f"""  AllreduceByDoubling(gloo_context_.ctx, bitvector.data(), count, sizeof(long long),
                      &{operation}<long long>);
"""
    return Edit(CONTROLLER, old, new, DOUBLING)


AGREED = '#include "../ops/gloo_operations.h"\n'
COMMON_H = '#include "../common.h"\n'
# A thread that finds the pair locked polls again at once, and may keep its core from the one that
# has the lock for a slice of the scheduler: milliseconds.
PAIR = "third_party/gloo/gloo/transport/tcp/pair.cc"
LOCKED = "std::try_to_lock);\n  if (!lock) {\n"
BUSY = "Gloo's thread kept the core from who held the lock that it wanted: 6 ms instead of 0.2"
COPIES = "a tensor that is reduced in place was copied onto itself"
COPY = """    std::memcpy(buffer_data, first_entry.tensor->data(),
                (size_t)first_entry.tensor->size());
    fused_input_data = buffer_data;
  }

  if (prescale"""
COPY_ELSEWHERE = """    if (buffer_data != first_entry.tensor->data()) {
      std::memcpy(buffer_data, first_entry.tensor->data(),
                  (size_t)first_entry.tensor->size());
    }
    fused_input_data = buffer_data;
  }

  if (prescale"""
AVERAGED = "averages of several tensors are divided while they are copied out, not before"
DIVIDE = """  if (postscale_factor != 1.0) {
    // Execute postscaling op
    ScaleBuffer(postscale_factor, entries, buffer_data, buffer_data, num_elements);
  }

  // Copy memory out of the fusion buffer.
  if (entries.size() > 1) {
    timeline.ActivityStartAll(entries, MEMCPY_OUT_FUSION_BUFFER);
    MemcpyOutFusionBuffer(buffer_data, entries);
    timeline.ActivityEndAll(entries);
  }

  return Status::OK();
}

bool GlooAllreduce"""
DIVIDE_WHILE_COPYING = """  if (entries.size() == 1) {
    if (postscale_factor != 1.0) {
      ScaleBuffer(postscale_factor, entries, buffer_data, buffer_data, num_elements);
    }
    return Status::OK();
  }
  timeline.ActivityStartAll(entries, MEMCPY_OUT_FUSION_BUFFER);
  if (postscale_factor != 1.0) {
    auto reduced = static_cast<const uint8_t*>(buffer_data);
    for (auto& e : entries) {
      ScaleBuffer(postscale_factor, entries, reduced, (void*)e.output->data(),
                  e.tensor->shape().num_elements());
      reduced += e.tensor->size();
    }
  } else {
    MemcpyOutFusionBuffer(buffer_data, entries);
  }
  timeline.ActivityEndAll(entries);
  return Status::OK();
}

bool GlooAllreduce"""
EDITS = (
    Edit("horovod/common/operations.h", DECLARED, DECLARED + WAITING, WAKE),
    Edit(QUEUE, QUEUE_METHOD, EMPTY + QUEUE_METHOD, WAKE),
    Edit(OPERATIONS, "#include <map>\n", INCLUDES, WAKE),
    Edit(OPERATIONS, LOOP, LOOP + SLEEP_UNTIL_WAITING, WAKE),
    Edit(OPERATIONS, SLEEP, SLEEP_OR_WAKE, WAKE),
    Edit(OPERATIONS, DEFINED, COUNT_WAITING + DEFINED, WAKE),
    Edit("horovod/torch/mpi_ops_v2.cc", POLL, POLL_WAITING, WAKE),
    Edit(HANDLES_H, "#include <memory>\n", INCLUDED, BLOCK),
    Edit(HANDLES_H, PUBLIC, PUBLIC + "  void Wait(int handle);\n", BLOCK),
    Edit(HANDLES_H, MUTEX, MUTEX + BLOCKED, BLOCK),
    Edit(HANDLES, DONE, DONE_WAKES, BLOCK),
    Edit(HANDLES, CLEARED, CLEARED + "  done_.notify_all();\n", BLOCK),
    NewFile(
        "horovod/common/gloo/doubling.h",
        Path(__file__).with_name("doubling.h").read_text(encoding="utf-8"),
        DOUBLING,
    ),
    Edit(CONTROLLER, AGREED, AGREED + '#include "doubling.h"\n', DOUBLING),
    bits("BitAnd"),
    bits("BitOr"),
    Edit(ALGORITHMS, COMMON_H, COMMON_H + '#include "../gloo/doubling.h"\n', DOUBLING),
    Edit(ALGORITHMS, RING, "  gloo::AllreduceOptions::Func reduce;\n" + RING, DOUBLING),
    Edit(ALGORITHMS, CHOSEN, "reduce = func;", DOUBLING, count=4),
    Edit(ALGORITHMS, REDUCED, SMALL, DOUBLING),
    Edit(ALGORITHMS, COPY, COPY_ELSEWHERE, COPIES),
    Edit(ALGORITHMS, DIVIDE, DIVIDE_WHILE_COPYING, AVERAGED),
    Edit(PAIR, "#include <sstream>\n", "#include <sstream>\n#include <thread>\n", BUSY),
    Edit(PAIR, LOCKED, LOCKED + "    std::this_thread::yield();\n", BUSY),
)
