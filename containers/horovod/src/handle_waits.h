// Threads that wait for handles. This file is no part of Horovod as it was released.
#ifndef HOROVOD_TORCH_HANDLE_WAITS_H
#define HOROVOD_TORCH_HANDLE_WAITS_H

#include <condition_variable>
#include <mutex>
#include <set>

namespace horovod {
namespace torch {

// A member of HandleManager, whose mutex is locked in each call.
class HandleWaits {
public:
  template <typename Done>
  void Wait(std::unique_lock<std::mutex>& lock, int handle, const Done& done) {
    const auto waited = waited_.insert(handle);
    done_.wait(lock, done);
    waited_.erase(waited);
  }

  void Done(int handle) {
    if (waited_.count(handle)) {
      done_.notify_all();
    }
  }

  void AllDone() { done_.notify_all(); }

private:
  std::condition_variable done_;
  std::multiset<int> waited_;
};

} // namespace torch
} // namespace horovod

#endif // HOROVOD_TORCH_HANDLE_WAITS_H
