// Allreduce by recursive doubling. This file is no part of Gloo as it was released.
#ifndef GLOO_DOUBLING_H
#define GLOO_DOUBLING_H

#include <cstdint>
#include <memory>

#include "gloo/allreduce.h"
#include "gloo/context.h"
#include "gloo/transport/unbound_buffer.h"
#include "gloo/types.h"

namespace gloo {

const size_t kMaxBytesToDouble = 64 * 1024;

// Whether doubling is the faster way to reduce: log2(N) messages one after the other, where a ring
// has 4(N-1).
inline bool ReducesByDoubling(const detail::AllreduceOptionsImpl& opts) {
  return opts.elements * opts.elementSize <= kMaxBytesToDouble && opts.in.empty() &&
         opts.out.size() == 1 && opts.algorithm == detail::AllreduceOptionsImpl::UNSPECIFIED;
}

// All ranks get the same bits, also of a reduction that does not commute (the least of 0 and -0):
// the lower ranks' operand comes first.
inline void AllreduceByDoubling(const detail::AllreduceOptionsImpl& opts) {
  const auto& context = opts.context;
  const auto& mine = opts.out[0];
  const int rank = context->rank;
  const auto slot = Slot::build(kAllreduceSlotPrefix, opts.tag + 1);
  const std::unique_ptr<uint8_t[]> received(new uint8_t[mine->size]);
  const auto theirs = context->createUnboundBuffer(received.get(), mine->size);
  const auto give = [&](int to) {
    mine->send(to, slot);
    mine->waitSend(opts.timeout);
  };
  int doubling = 1; // the ranks that double: the largest power of two
  while (2 * doubling <= context->size) {
    doubling *= 2;
  }
  if (rank >= doubling) { // one of the others: gives its data, and gets the result
    give(rank - doubling);
    mine->recv(rank - doubling, slot);
    mine->waitRecv(opts.timeout);
    return;
  }
  const bool serves = rank + doubling < context->size;
  if (serves) {
    theirs->recv(rank + doubling, slot);
    theirs->waitRecv(opts.timeout);
    opts.reduce(mine->ptr, mine->ptr, received.get(), opts.elements);
  }
  for (int distance = 1; distance < doubling; distance *= 2) {
    const int partner = rank ^ distance;
    theirs->recv(partner, slot);
    give(partner);
    theirs->waitRecv(opts.timeout);
    if (rank < partner) {
      opts.reduce(mine->ptr, mine->ptr, received.get(), opts.elements);
    } else {
      opts.reduce(mine->ptr, received.get(), mine->ptr, opts.elements);
    }
  }
  if (serves) {
    give(rank + doubling);
  }
}

} // namespace gloo

#endif // GLOO_DOUBLING_H
