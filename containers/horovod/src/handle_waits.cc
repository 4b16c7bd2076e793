// Threads that wait for handles. This file is no part of Horovod as it was released.
#include <chrono>
#include <thread>

#include "../common/waiting.h"
#include "handle_manager.h"

namespace horovod {
namespace torch {

// Most small exchanges end while this spins. A thread that sleeps leaves its core to those that
// exchange.
void HandleManager::Wait(int handle) {
  const common::Waiting waiting;
  const auto spun = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (std::chrono::steady_clock::now() < spun) {
    if (PollHandle(handle)) {
      return;
    }
    std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  waits_.Wait(lock, handle, [&] {
    const auto result = results_.find(handle);
    return result == results_.end() || result->second != nullptr;
  });
}

} // namespace torch
} // namespace horovod
