// When the background thread begins a cycle. This file is no part of Horovod as it was released.
#include "waiting.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "global_state.h"

namespace horovod {
namespace common {
namespace {

std::mutex waiting_mutex;
std::condition_variable waiting_began;
int waiting = 0; // threads
#if HAVE_GPU
bool woken = false;
#else
bool has_waited = false;
const double kLongCycleMs = 10;

// Whether a tensor is left to exchange. Who waited for the last one may not have noticed yet.
bool TensorsAreLeft(ProcessSetTable& sets) {
  const auto ids = sets.Ids();
  return std::any_of(ids.begin(), ids.end(),
                     [&](int32_t id) { return !sets.Get(id).tensor_queue.Empty(); });
}

bool CycleTimeIsChosen(const HorovodGlobalState& state) {
  static const bool by_user = std::getenv(HOROVOD_CYCLE_TIME) != nullptr;
  return by_user || state.parameter_manager.IsAutoTuning();
}
#endif

std::chrono::microseconds Microseconds(double milliseconds) {
  return std::chrono::microseconds(long(milliseconds * 1000.));
}

} // namespace

Waiting::Waiting() {
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

Waiting::~Waiting() {
  std::lock_guard<std::mutex> lock(waiting_mutex);
  --waiting;
}

bool TensorQueue::Empty() const {
  std::lock_guard<std::mutex> guard(mutex_);
  return tensor_table_.empty();
}

std::chrono::steady_clock::time_point SleepForCycle(HorovodGlobalState& state) {
  const auto began = state.last_cycle_start;
  const double horovods_cycle_ms = state.parameter_manager.CycleTimeMs();
  double cycle_ms = horovods_cycle_ms;
  std::unique_lock<std::mutex> lock(waiting_mutex);
#if HAVE_GPU
  // A wait lasts as long as the GPU computes: it begins a cycle, and the next are only shorter.
  if (waiting > 0) {
    cycle_ms = std::min(cycle_ms, 0.1);
  }
  const auto wakes = [] { return woken; };
#else
  if (has_waited && !CycleTimeIsChosen(state)) {
    cycle_ms = kLongCycleMs;
  }
  const auto wakes = [&] { return waiting > 0 && TensorsAreLeft(state.process_set_table); };
#endif
  waiting_began.wait_until(lock, began + Microseconds(cycle_ms), wakes);
#if HAVE_GPU
  woken = false;
#endif
  return std::max(std::chrono::steady_clock::now(), began + Microseconds(horovods_cycle_ms));
}

} // namespace common
} // namespace horovod
