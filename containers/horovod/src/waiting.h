// When the background thread begins a cycle. This file is no part of Horovod as it was released.
#ifndef HOROVOD_WAITING_H
#define HOROVOD_WAITING_H

#include <chrono>

namespace horovod {
namespace common {

struct HorovodGlobalState;

// A thread of a framework waits for a tensor as long as this lives.
class Waiting {
public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
};

// Sleeps for the rest of the cycle, or until a framework waits for a tensor. Returns the time at
// which the cycle has ended, which is not before the end that Horovod counts on.
std::chrono::steady_clock::time_point SleepForCycle(HorovodGlobalState& state);

} // namespace common
} // namespace horovod

#endif // HOROVOD_WAITING_H
