// Allreduce by recursive doubling. This file is no part of Horovod as it was released.
#ifndef HOROVOD_DOUBLING_H
#define HOROVOD_DOUBLING_H

#include <cstdint>
#include <memory>

#include "gloo/allreduce.h"
#include "gloo/context.h"
#include "gloo/transport/unbound_buffer.h"
#include "gloo/types.h"

namespace horovod {
namespace common {

// Reduces `count` elements of `size` bytes at `data`. All ranks get the same bits, also of a
// reduction that does not commute (the least of 0 and -0): the lower ranks' operand comes first.
inline void AllreduceByDoubling(const std::shared_ptr<gloo::Context>& context, void* data,
                                size_t count, size_t size,
                                const gloo::AllreduceOptions::Func& reduce) {
  const int rank = context->rank;
  const auto slot = gloo::Slot::build(gloo::kAllreduceSlotPrefix, 1);
  const std::unique_ptr<uint8_t[]> received(new uint8_t[count * size]);
  auto mine = context->createUnboundBuffer(data, count * size);
  auto theirs = context->createUnboundBuffer(received.get(), count * size);
  const auto give = [&](int to) {
    mine->send(to, slot);
    mine->waitSend(context->getTimeout());
  };
  int doubling = 1; // the ranks that double: the largest power of two
  while (2 * doubling <= context->size) doubling *= 2;
  if (rank >= doubling) { // one of the others: gives its data, and gets the result
    give(rank - doubling);
    mine->recv(rank - doubling, slot);
    mine->waitRecv(context->getTimeout());
    return;
  }
  const bool serves = rank + doubling < context->size;
  if (serves) {
    theirs->recv(rank + doubling, slot);
    theirs->waitRecv(context->getTimeout());
    reduce(data, data, received.get(), count);
  }
  for (int distance = 1; distance < doubling; distance *= 2) {
    const int other = rank ^ distance;
    theirs->recv(other, slot);
    give(other);
    theirs->waitRecv(context->getTimeout());
    if (rank < other) {
      reduce(data, data, received.get(), count);
    } else {
      reduce(data, received.get(), data, count);
    }
  }
  if (serves) give(rank + doubling);
}

} // namespace common
} // namespace horovod

#endif
