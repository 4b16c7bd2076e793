// Averages of several tensors, divided while they are copied out of the fusion buffer. This file is
// no part of Horovod as it was released.
#include "gloo_operations.h"

namespace horovod {
namespace common {

Status GlooAllreduce::ScaleOutOfFusionBuffer(double factor, std::vector<TensorTableEntry>& entries,
                                             const void* buffer) {
  auto& timeline = global_state_->timeline;
  timeline.ActivityEndAll(entries);
  timeline.ActivityStartAll(entries, MEMCPY_OUT_FUSION_BUFFER);
  auto reduced = static_cast<const uint8_t*>(buffer);
  for (auto& entry : entries) {
    ScaleBuffer(factor, entries, reduced, const_cast<void*>(entry.output->data()),
                entry.tensor->shape().num_elements());
    reduced += entry.tensor->size();
  }
  timeline.ActivityEndAll(entries);
  return Status::OK();
}

} // namespace common
} // namespace horovod
